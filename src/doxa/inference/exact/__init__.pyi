from doxa.inference.exact.budget import Budget as Budget
from doxa.inference.exact.budget import BudgetError as BudgetError
from doxa.inference.exact.budget import Cost as Cost
from doxa.inference.exact.plan import ContractionPlan as ContractionPlan
from doxa.inference.exact.plan import ExactResult as ExactResult
from doxa.inference.exact.plan import Joint as Joint
from doxa.inference.exact.plan import MostProbable as MostProbable
from doxa.inference.exact.plan import plan_contraction as plan_contraction
