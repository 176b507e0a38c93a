package Shop::Cart;

use strict;
use warnings;

# Makes a cart.
sub new {
    my ($class, %args) = @_;
    return bless { items => [], %args }, $class;
}

sub add {
    my ($self, $item) = @_;
    push @{ $self->{items} }, $item;
    return $self;
}

package Shop::Line;

sub price { 1 }

1;
