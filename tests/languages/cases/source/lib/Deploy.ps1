# Deploys the shop.
param([string]$Stage = "test")

function Get-Version {
    param([string]$Path)
    Get-Content $Path
}

class Cart {
    [int] $Count

    [void] Add([int] $n) {
        $this.Count += $n
    }
}
