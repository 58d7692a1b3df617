from doxa.data.read import read_table as read_table
from doxa.data.table import Table as Table
