package companion

// networksMax is the maximum number of networks.
const networksMax = 2

// The contexts of a byte. Beside the last bytes and the word there are, for records, tables and
// logs, the column and the field. The last two are the byte that a match expects, and the bytes
// that followed the last byte before.
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
	contextFollowed // the last byte, and the last four bytes that followed the same byte
	contextCount
)

// Indexes of the inputs at a node.
const (
	firstNetwork = 0
	firstContext = firstNetwork + networksMax
	firstMatch   = firstContext + contextCount
	constant     = firstMatch + matchCount

	// inputCount is the number of inputs, padded with zeros.
	inputCount = 16
)

// constantInput is the value of the constant input.
const constantInput = 0.3
