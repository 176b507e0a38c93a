class Half:
    def fine(self):
        return 1

    def broken(self:
        return (2

def after():
    return 3
