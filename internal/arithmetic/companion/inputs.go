package companion

// networksMax is the maximum number of networks.
const networksMax = 2

// The contexts of a byte: the last bytes (contextOrder), and those described beside their names.
// The column and the field serve records, tables and logs.
const (
	contextOrder0 = iota // no byte; contextOrder6 is the last six bytes
	contextOrder1
	contextOrder2
	contextOrder3
	contextOrder4
	contextOrder6
	contextWord     // the word so far and the last byte
	contextColumn   // the byte above, in the line before, and the column
	contextField    // the number of the field and the word so far
	contextExpected // the byte that a match expects and the match's class
	contextFollowed // the last byte b, and the last four bytes that each followed a b
	contextCount
)

// Indexes of the inputs at a node.
const (
	firstNetwork = 0
	firstContext = firstNetwork + networksMax
	firstMatch   = firstContext + contextCount
	constant     = firstMatch + matchCount

	// inputCount is the number of inputs; the last ones are always zero.
	inputCount = 16
)

// constantInput is the value of the constant input.
const constantInput = 0.3
