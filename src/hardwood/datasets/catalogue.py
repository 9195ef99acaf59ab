"""What is known about each table: the only place that holds column names and attributions."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class OpenMLSource:
    """Where OpenML keeps a table, and how its copy differs from ours."""

    name: str
    version: int
    labels: tuple[str, str]
    """OpenML's labels of class 0 and class 1."""
    identifiers: tuple[str, ...] = ()
    """Columns that name a row rather than describe it; left out."""


@dataclass(frozen=True)
class TableEntry:
    """One table: its shape, its names and whom to thank for it."""

    name: str
    description: str
    n_rows: int
    feature_names: tuple[str, ...]
    target_names: tuple[str, str]
    citation: str
    source: Literal["bundled", "scikit-learn"] | OpenMLSource = "bundled"


def _numbered(pattern: str, count: int) -> tuple[str, ...]:
    return tuple(pattern.format(k) for k in range(1, count + 1))


def _paired(pattern: str, count: int, pair: tuple[str, str]) -> tuple[str, ...]:
    return tuple(pattern.format(k, part) for k in range(1, count + 1) for part in pair)


_SPAMBASE_WORDS = (
    "make address all 3d our over remove internet order mail receive will people report addresses "
    "free business email you credit your font 000 money hp hpl george 650 lab labs telnet 857 data "
    "415 85 technology 1999 parts pm direct cs meeting original project re edu table conference"
)

_ENTRIES = (
    TableEntry(
        name="banknote-authentication",
        description="Wavelet statistics of photographed banknotes, genuine and forged",
        n_rows=1372,
        feature_names=("variance", "skewness", "kurtosis", "entropy"),
        target_names=("genuine", "forged"),
        citation="Lohweg, V. (2012). Banknote Authentication. doi:10.24432/C55P57",
    ),
    TableEntry(
        name="blood-transfusion",
        description="How recently, how often and how long people gave blood, and whether they gave again in March 2007",
        n_rows=748,
        feature_names=("recency_months", "frequency_times", "monetary_cc_blood", "time_months"),
        target_names=("did not donate", "donated"),
        citation="Yeh, I-C. (2008). Blood Transfusion Service Center. doi:10.24432/C5GS39",
    ),
    TableEntry(
        name="breast-cancer",
        description="Shapes of cell nuclei in images of breast masses (Wisconsin, diagnostic)",
        n_rows=569,
        feature_names=tuple(
            pattern.format(measure)
            for pattern in ("mean {}", "{} error", "worst {}")
            for measure in (
                "radius",
                "texture",
                "perimeter",
                "area",
                "smoothness",
                "compactness",
                "concavity",
                "concave points",
                "symmetry",
                "fractal dimension",
            )
        ),
        target_names=("benign", "malignant"),
        citation="Wolberg, W., Mangasarian, O., Street, N. and Street, W. (1993). Breast Cancer "
        "Wisconsin (Diagnostic). doi:10.24432/C5DW2B",
        source="scikit-learn",
    ),
    TableEntry(
        name="breast-w",
        description="Cytology grades (1 to 10) of breast tissue samples (Wisconsin, original), complete rows only",
        n_rows=683,
        feature_names=(
            "clump_thickness",
            "cell_size_uniformity",
            "cell_shape_uniformity",
            "marginal_adhesion",
            "single_epithelial_cell_size",
            "bare_nuclei",
            "bland_chromatin",
            "normal_nucleoli",
            "mitoses",
        ),
        target_names=("benign", "malignant"),
        citation="Wolberg, W. (1990). Breast Cancer Wisconsin (Original). doi:10.24432/C5HP4Z",
    ),
    TableEntry(
        name="climate-model-simulation",
        description="Ocean model parameters, scaled to [0, 1], of climate simulations that crashed or ran to the end",
        n_rows=540,
        feature_names=(
            "vconst_corr",
            "vconst_2",
            "vconst_3",
            "vconst_4",
            "vconst_5",
            "vconst_7",
            "ah_corr",
            "ah_bolus",
            "slm_corr",
            "efficiency_factor",
            "tidal_mix_max",
            "vertical_decay_scale",
            "convect_corr",
            "bckgrnd_vdc1",
            "bckgrnd_vdc_ban",
            "bckgrnd_vdc_eq",
            "bckgrnd_vdc_psim",
            "Prandtl",
        ),
        target_names=("failure", "success"),
        citation="Lucas, D., Klein, R., Tannahill, J., Ivanova, D., Brandon, S., Domyancic, D. "
        "and Zhang, Y. (2013). Climate Model Simulation Crashes. doi:10.24432/C5HG71",
        source=OpenMLSource("climate-model-simulation-crashes", 4, ("0", "1"), identifiers=("Study", "Run")),
    ),
    TableEntry(
        name="cylinder-bands",
        description="Settings of a rotogravure press, with and without bands in the print; "
        "complete rows only, categories (caliper and current density among them) as codes",
        n_rows=277,
        feature_names=(
            "customer",
            "job_number",
            "grain_screened",
            "ink_color",
            "proof_on_ctd_ink",
            "blade_mfg",
            "cylinder_division",
            "paper_type",
            "ink_type",
            "direct_steam",
            "solvent_type",
            "type_on_cylinder",
            "press_type",
            "press",
            "unit_number",
            "cylinder_size",
            "paper_mill_location",
            "plating_tank",
            "proof_cut",
            "viscosity",
            "caliper",
            "ink_temperature",
            "humidity",
            "roughness",
            "blade_pressure",
            "varnish_pct",
            "press_speed",
            "ink_pct",
            "solvent_pct",
            "ESA_voltage",
            "ESA_amperage",
            "wax",
            "hardener",
            "roller_durometer",
            "current_density",
            "anode_space_ratio",
            "chrome_content",
        ),
        target_names=("no band", "band"),
        citation="Evans, B. (1995). Cylinder Bands. See also Evans, B. and Fisher, D. (1994), IEEE Expert 9(1), 60-66",
        source=OpenMLSource(
            "cylinder-bands",
            2,
            ("noband", "band"),
            identifiers=("timestamp", "cylinder_number"),
        ),
    ),
    TableEntry(
        name="diabetes",
        description="Health measurements of women of Pima heritage and their diabetes tests; "
        "unknown measurements are 0",
        n_rows=768,
        feature_names=(
            "pregnancies",
            "plasma_glucose",
            "diastolic_blood_pressure",
            "triceps_skin_fold",
            "serum_insulin",
            "body_mass_index",
            "diabetes_pedigree",
            "age",
        ),
        target_names=("tested negative", "tested positive"),
        citation="National Institute of Diabetes and Digestive and Kidney Diseases, donated by "
        "Sigillito, V. (1990). Pima Indians Diabetes",
    ),
    TableEntry(
        name="haberman",
        description="Survival for five years after surgery for breast cancer, Chicago 1958-1970",
        n_rows=306,
        feature_names=("age", "operation_year", "positive_nodes"),
        target_names=("survived", "died"),
        citation="Haberman, S. (1976). Haberman's Survival. doi:10.24432/C5XK51",
    ),
    TableEntry(
        name="ionosphere",
        description="Radar returns from the ionosphere: good ones show structure, bad ones pass",
        n_rows=351,
        feature_names=_paired("pulse_{}_{}", 17, ("real", "imaginary")),
        target_names=("good", "bad"),
        citation="Sigillito, V., Wing, S., Hutton, L. and Baker, K. (1989). Ionosphere. doi:10.24432/C5W01B",
    ),
    TableEntry(
        name="parkinsons",
        description="Voice measurements of people with Parkinson's disease and healthy people",
        n_rows=195,
        feature_names=(
            "MDVP:Fo(Hz)",
            "MDVP:Fhi(Hz)",
            "MDVP:Flo(Hz)",
            "MDVP:Jitter(%)",
            "MDVP:Jitter(Abs)",
            "MDVP:RAP",
            "MDVP:PPQ",
            "Jitter:DDP",
            "MDVP:Shimmer",
            "MDVP:Shimmer(dB)",
            "Shimmer:APQ3",
            "Shimmer:APQ5",
            "MDVP:APQ",
            "Shimmer:DDA",
            "NHR",
            "HNR",
            "RPDE",
            "DFA",
            "spread1",
            "spread2",
            "D2",
            "PPE",
        ),
        target_names=("healthy", "Parkinson's"),
        citation="Little, M. (2007). Parkinsons. doi:10.24432/C59C74",
    ),
    TableEntry(
        name="planning-relax",
        description="Wavelet-packet features of EEG in the 7-13 Hz band: planning a movement, or relaxed",
        n_rows=182,
        feature_names=_numbered("wavelet_packet_{}", 12),
        target_names=("planning", "relax"),
        citation="Bhatt, R. (2012). Planning Relax. doi:10.24432/C5T023",
        source=OpenMLSource("planning-relax", 1, ("1", "2")),
    ),
    TableEntry(
        name="sonar",
        description="Sonar energy in 60 frequency bands, bounced off rocks and metal cylinders",
        n_rows=208,
        feature_names=_numbered("energy_band_{}", 60),
        target_names=("rock", "mine"),
        citation="Sejnowski, T. and Gorman, R. (1988). Connectionist Bench (Sonar, Mines vs. "
        "Rocks). doi:10.24432/C5T01Q",
    ),
    TableEntry(
        name="spambase",
        description="E-mails as percentages of words and characters and runs of capital letters",
        n_rows=4601,
        feature_names=(
            *(f"word_freq_{word}" for word in _SPAMBASE_WORDS.split()),
            *(f"char_freq_{character}" for character in ";([!$#"),
            "capital_run_length_average",
            "capital_run_length_longest",
            "capital_run_length_total",
        ),
        target_names=("not spam", "spam"),
        citation="Hopkins, M., Reeber, E., Forman, G. and Suermondt, J. (1999). Spambase. doi:10.24432/C53G6X",
    ),
    TableEntry(
        name="SPECTF",
        description="Heart scans: counts in 22 regions of interest, at rest and under stress",
        n_rows=267,
        feature_names=_paired("region_{}_{}", 22, ("rest", "stress")),
        target_names=("normal", "abnormal"),
        citation="Cios, K., Kurgan, L. and Goodenday, L. (2001). SPECTF Heart. doi:10.24432/C5N015",
    ),
    TableEntry(
        name="wine",
        description="Chemistry of red and white vinho verde, and whether tasters scored it below 6",
        n_rows=6497,
        feature_names=(
            "fixed_acidity",
            "volatile_acidity",
            "citric_acid",
            "residual_sugar",
            "chlorides",
            "free_sulfur_dioxide",
            "total_sulfur_dioxide",
            "density",
            "pH",
            "sulphates",
            "alcohol",
        ),
        target_names=("quality 6 or above", "quality below 6"),
        citation="Cortez, P., Cerdeira, A., Almeida, F., Matos, T. and Reis, J. (2009). Wine "
        "Quality. doi:10.24432/C56S3T",
    ),
)

CATALOGUE = {entry.name: entry for entry in _ENTRIES}
