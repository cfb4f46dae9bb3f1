package companion

// networksMax is the largest number of networks.
const networksMax = 2

// The contexts of a byte: of its last bytes; of its word; and, for records, tables and logs, of its
// column and field; what a match expects; and what followed the last byte before.
const (
	contextOrder0 = iota // nothing
	contextOrder1
	contextOrder2
	contextOrder3
	contextOrder4
	contextOrder6
	contextWord     // the word so far and the last byte
	contextColumn   // the byte above and the column
	contextField    // the number of the field and the word so far
	contextExpected // the byte that a match expects and the match's class
	contextFollowed // the last byte, and the last four bytes that followed it
	contextCount
)

// Places of the inputs at a node.
const (
	firstNetwork = 0
	firstContext = firstNetwork + networksMax
	firstMatch   = firstContext + contextCount
	constant     = firstMatch + matchCount

	// inputCount is how many there is room for; the rest is 0.
	inputCount = 16
)

// constantInput is the constant.
const constantInput = 0.3
