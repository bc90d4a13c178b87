import sys
from pathlib import Path

# definitions by brute force, that the tests share
sys.path.insert(0, str(Path(__file__).parent))
