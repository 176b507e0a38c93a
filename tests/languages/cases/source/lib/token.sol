// SPDX-License-Identifier: MIT
pragma solidity ^0.8.0;

interface IToken {
    function transfer(address to, uint256 amount) external returns (bool);
}

library Math {
    function min(uint256 a, uint256 b) internal pure returns (uint256) {
        return a < b ? a : b;
    }
}

contract Token is IToken {
    struct Holder { uint256 balance; }
    enum State { Open, Closed }
    event Moved(address indexed from, uint256 amount);

    modifier onlyOwner() {
        require(msg.sender == owner);
        _;
    }

    constructor(uint256 supply) {
        owner = msg.sender;
    }

    function transfer(address to, uint256 amount) external override returns (bool) {
        emit Moved(to, amount);
        return true;
    }
}
