import 'dart:async';

/// A cart.
abstract class Cart<T> extends Base with Logs implements Disposable {
  Cart(this.id);
  factory Cart.empty() => _Cart('none');

  final String id;

  Future<void> add(T item) async {
    await Future.delayed(Duration.zero);
  }

  int get length => 0;

  @override
  void dispose();
}

mixin Logs on Base {
  void log(String text) {
    print(text);
  }
}

extension Sums on List<int> {
  int sum() => fold(0, (a, b) => a + b);
}

enum Level { low, high }

typedef Handler = void Function(Cart cart);

void main(List<String> args) {
  print(args);
}
