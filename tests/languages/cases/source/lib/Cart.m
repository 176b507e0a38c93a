#import "Cart.h"

@interface Cart ()
@property (nonatomic) int count;
- (void)clear;
@end

@implementation Cart

- (void)add:(int)item times:(int)times {
  self.count += item * times;
}

+ (instancetype)cart {
  return [[self alloc] init];
}

@end

@protocol Priced
- (int)price;
@end

static int twice(int n) {
  return 2 * n;
}
