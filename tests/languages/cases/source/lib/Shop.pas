unit Shop;

interface

type
  TCart = class(TObject)
  private
    FCount: Integer;
  public
    procedure Add(Item: Integer);
  end;

  TLine = record
    Sku: string;
  end;

function Total(Cart: TCart): Integer;

implementation

procedure TCart.Add(Item: Integer);
begin
  Inc(FCount, Item);
end;

function Total(Cart: TCart): Integer;
begin
  Result := 1;
end;

end.
