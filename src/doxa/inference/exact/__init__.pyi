from doxa.inference.exact.plan import ContractionPlan as ContractionPlan
from doxa.inference.exact.plan import ExactResult as ExactResult
from doxa.inference.exact.plan import Joint as Joint
from doxa.inference.exact.plan import MostProbable as MostProbable
from doxa.inference.exact.plan import plan_contraction as plan_contraction
from doxa.inference.exact.program import Budget as Budget
from doxa.inference.exact.program import BudgetError as BudgetError
from doxa.inference.exact.program import Cost as Cost
