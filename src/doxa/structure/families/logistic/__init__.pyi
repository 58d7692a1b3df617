from doxa.structure.families.logistic.score import FamilyMixture as FamilyMixture
from doxa.structure.families.logistic.score import Logistic as Logistic
