const std = @import("std");

pub const Error = error{Full};

/// Hands out slots.
pub const Pool = struct {
    used: usize = 0,

    pub fn init() Pool {
        return .{};
    }

    pub fn take(self: *Pool) !usize {
        self.used += 1;
        return self.used;
    }
};

const Mode = enum { fast, safe };

pub fn main() !void {
    var pool = Pool.init();
    _ = try pool.take();
}

test "takes a slot" {
    var pool = Pool.init();
    try std.testing.expectEqual(1, try pool.take());
}
