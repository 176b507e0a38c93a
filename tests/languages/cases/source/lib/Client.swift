import Foundation

public typealias Completion = (Result<Data, Error>) -> Void

public protocol Transport: AnyObject {
    associatedtype Body
    var name: String { get }
    func send(_ body: Body, timeout: TimeInterval) async throws -> Data
}

/// Talks to the shop.
@MainActor
public final class Client<T: Transport>: NSObject {
    private let transport: T
    static let shared = Client()

    public init(transport: T) {
        self.transport = transport
        super.init()
    }

    deinit {
        print("gone")
    }

    public func fetch<Value: Decodable>(
        _ type: Value.Type,
        from path: String
    ) async throws -> Value {
        let data = try await transport.send(path)
        return try JSONDecoder().decode(type, from: data)
    }

    var isIdle: Bool {
        return true
    }

    subscript(key: String) -> Int {
        return key.count
    }

    enum State {
        case idle, busy(Int)

        var label: String {
            "state"
        }
    }
}

struct Point: Equatable {
    var x = 0.0

    mutating func move(by delta: Double) {
        x += delta
    }

    static func origin() -> Point {
        Point()
    }
}

extension Point: CustomStringConvertible {
    var description: String {
        "\(x)"
    }

    func distance(to other: Point) -> Double {
        abs(x - other.x)
    }
}

actor Counter {
    private var value = 0

    func increment() {
        value += 1
    }
}

func topLevel(_ values: Int...) -> Int {
    values.reduce(0, +)
}
