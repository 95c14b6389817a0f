import subprocess
import sys


def test_importing_the_factory_does_not_import_jetstream():
    script = "import sys, jopd.engines.factory; sys.exit('jetstream' in sys.modules)"
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120)
