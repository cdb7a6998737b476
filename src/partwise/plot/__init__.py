"""Displays: pictures of a fitted model, in scikit-learn's manner.

``from_estimator`` computes what is shown, keeps it as plain arrays and plots it; ``plot`` plots it
again, elsewhere or in other colors. Matplotlib is loaded when something is plotted.
"""

from partwise.plot._display import Display, save_picture
from partwise.plot._pictures import PicturesDisplay
from partwise.plot.association import AssociationDisplay
from partwise.plot.bars import BarsDisplay
from partwise.plot.bound import BoundDisplay
from partwise.plot.classes import ClassPriorsDisplay, ClassTableDisplay
from partwise.plot.codebook import CodebookDisplay
from partwise.plot.components import ComponentsDisplay
from partwise.plot.drift import DriftDisplay
from partwise.plot.features import CodesDisplay, FeaturesDisplay
from partwise.plot.gates import GatesDisplay
from partwise.plot.hinton import HintonDisplay
from partwise.plot.loadings import LoadingsDisplay
from partwise.plot.reconstruction import ReconstructionDisplay
from partwise.plot.roc import DensityRocDisplay
from partwise.plot.samples import SamplesDisplay
from partwise.plot.shifts import ShiftsDisplay
from partwise.plot.sizes import SizePathDisplay
from partwise.plot.stability import StabilityDisplay
from partwise.plot.states import StatesDisplay
from partwise.plot.tables import DependenceDisplay, ProfilesDisplay, TableDisplay

__all__ = [
    "AssociationDisplay",
    "BarsDisplay",
    "BoundDisplay",
    "ClassPriorsDisplay",
    "ClassTableDisplay",
    "CodebookDisplay",
    "CodesDisplay",
    "ComponentsDisplay",
    "DensityRocDisplay",
    "DependenceDisplay",
    "Display",
    "DriftDisplay",
    "FeaturesDisplay",
    "GatesDisplay",
    "HintonDisplay",
    "LoadingsDisplay",
    "PicturesDisplay",
    "ProfilesDisplay",
    "ReconstructionDisplay",
    "SamplesDisplay",
    "ShiftsDisplay",
    "SizePathDisplay",
    "StabilityDisplay",
    "StatesDisplay",
    "TableDisplay",
    "save_picture",
]
