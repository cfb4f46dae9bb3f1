package companion

const networksMax = 2

// These constants number the contexts of a byte. contextOrder0 to contextOrder6 are the last bytes
// of the text. The column and the field help in records, tables and logs.
const (
	contextOrder0 = iota // the last 0 bytes; likewise, contextOrder6 is the last six bytes
	contextOrder1
	contextOrder2
	contextOrder3
	contextOrder4
	contextOrder6
	contextWord     // the current word so far, and the last byte of the text
	contextColumn   // the column, and the byte in this column of the previous line
	contextField    // the index of the field and the current word so far
	contextExpected // the byte that a match predicts, and the match's class
	contextFollowed // the last byte, and the bytes after its last four occurrences
	contextCount
)

// These constants are the indexes of the mixer's inputs at a node.
const (
	firstNetwork = 0
	firstContext = firstNetwork + networksMax
	firstMatch   = firstContext + contextCount
	constant     = firstMatch + matchCount

	// inputCount is the number of inputs. The last inputs are padding and always zero.
	inputCount = 16
)

// constantInput is the value of the mixer's bias input.
const constantInput = 0.3
