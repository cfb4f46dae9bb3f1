package companion

import "fmt"

// Settings say how large a companion is, and beside what it stands.
type Settings struct {
	// TableBytes is the size of the table of bit histories: a power of two.
	TableBytes int
	// Networks is how many distributions are mixed with the counts: 1 or 2. Of two, the first is
	// the one that adapts.
	Networks int
}

// The sizes of a table.
const (
	TableBytesMin     = 1 << 16
	TableBytesDefault = 1 << 21
	TableBytesMax     = 1 << 26
)

// TableBytesWanted says what a Settings.TableBytes is expected to be.
var TableBytesWanted = fmt.Sprintf("a power of two from %d to %d", TableBytesMin, TableBytesMax)

// Validate reports the first setting that is out of range.
func (s Settings) Validate() error {
	if n := s.TableBytes; n < TableBytesMin || n > TableBytesMax || n&(n-1) != 0 {
		return fmt.Errorf("companion: the table has %d bytes, expected %s", n, TableBytesWanted)
	}
	if s.Networks < 1 || s.Networks > networksMax {
		return fmt.Errorf("companion: there are %d networks, expected 1 to %d", s.Networks,
			networksMax)
	}
	return nil
}
