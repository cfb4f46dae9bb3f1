package companion

import "fmt"

// Settings are the size of a companion and the number of its networks.
type Settings struct {
	// TableBytes is the size in bytes of the table of bit histories. It must be a power of two.
	TableBytes int
	// Networks is the number of networks whose distributions are mixed with the counts: 1 or 2. Of
	// two networks, the first one adapts to the text.
	Networks int
}

// The minimum, maximum and default sizes of the table.
const (
	TableBytesMin     = 1 << 16
	TableBytesDefault = 1 << 21
	TableBytesMax     = 1 << 26
)

// TableBytesWanted describes the valid values of Settings.TableBytes.
var TableBytesWanted = fmt.Sprintf("a power of two from %d to %d", TableBytesMin, TableBytesMax)

// Validate returns an error for the first setting that is out of range.
func (s Settings) Validate() error {
	if n := s.TableBytes; n < TableBytesMin || n > TableBytesMax || n&(n-1) != 0 {
		return fmt.Errorf("companion: the table has %d bytes, expected %s", n, TableBytesWanted)
	}
	if s.Networks < 1 || s.Networks > networksMax {
		return fmt.Errorf("companion: the number of networks is %d, expected 1 to %d", s.Networks,
			networksMax)
	}
	return nil
}
