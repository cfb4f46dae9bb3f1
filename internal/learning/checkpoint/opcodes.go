package checkpoint

// argument is the form of an opcode's argument in a pickle. A positive value is the argument's size
// in bytes. With a negative value -n, the argument begins with its length, a little-endian number
// of n bytes.
type argument int

const (
	none     argument = 0
	fixed1   argument = 1
	fixed2   argument = 2
	fixed4   argument = 4
	fixed8   argument = 8
	counted1 argument = -1
	counted4 argument = -4
	counted8 argument = -8
	lines2   argument = 1 << 10 // two lines, each ending in a newline
)

// effect is what an opcode does, as far as the scanner needs to know.
type effect int

const (
	other effect = iota // has an effect on the stack that the scanner does not follow
	text
	number
	put
	memoize
	get
	global
	stackGlobal
	aside // has no effect on the stack or the memo
	stop
)

// opcode describes a pickle instruction that a checkpoint may contain.
type opcode struct {
	name     string
	argument argument
	effect   effect
	memory   int // upper estimate of the memory that the instruction needs, in bytes
}

// Upper estimates, in bytes, of the memory for an object, a container, a mark and an entry of the
// memo. An object may also need an entry of a dictionary. A mark begins a new stack.
const (
	objectMemory    = 200
	containerMemory = 400
	markMemory      = 400
	noteMemory      = 200
)

// opcodes are the supported instructions. torch.save and Python's pickle write them in protocols 2
// to 5 (https://docs.python.org/3/library/pickletools.html). Protocols 0 and 1, the registry of
// extensions, and buffers outside the pickle are not supported. INST, OBJ and NEWOBJ_EX are not
// supported, because they call a class without REDUCE. Instructions that remove objects from the
// stack are not supported.
var opcodes = [256]opcode{
	0x80: {"PROTO", fixed1, aside, 0},
	0x95: {"FRAME", fixed8, aside, 0},
	'.':  {"STOP", none, stop, 0},
	'(':  {"MARK", none, other, markMemory},

	'N':  {"NONE", none, other, objectMemory},
	0x88: {"NEWTRUE", none, other, objectMemory},
	0x89: {"NEWFALSE", none, other, objectMemory},
	'K':  {"BININT1", fixed1, other, objectMemory},
	'M':  {"BININT2", fixed2, other, objectMemory},
	'J':  {"BININT", fixed4, other, objectMemory},
	0x8a: {"LONG1", counted1, number, objectMemory},
	'G':  {"BINFLOAT", fixed8, other, objectMemory},

	'U':  {"SHORT_BINSTRING", counted1, text, objectMemory},
	'T':  {"BINSTRING", counted4, text, objectMemory},
	0x8c: {"SHORT_BINUNICODE", counted1, text, objectMemory},
	'X':  {"BINUNICODE", counted4, text, objectMemory},
	0x8d: {"BINUNICODE8", counted8, text, objectMemory},
	'C':  {"SHORT_BINBYTES", counted1, other, objectMemory},
	'B':  {"BINBYTES", counted4, other, objectMemory},
	0x8e: {"BINBYTES8", counted8, other, objectMemory},

	')':  {"EMPTY_TUPLE", none, other, objectMemory},
	0x85: {"TUPLE1", none, other, objectMemory},
	0x86: {"TUPLE2", none, other, objectMemory},
	0x87: {"TUPLE3", none, other, objectMemory},
	't':  {"TUPLE", none, other, objectMemory},
	']':  {"EMPTY_LIST", none, other, containerMemory},
	'}':  {"EMPTY_DICT", none, other, containerMemory},
	0x8f: {"EMPTY_SET", none, other, containerMemory},
	0x91: {"FROZENSET", none, other, containerMemory},
	'a':  {"APPEND", none, other, 0},
	'e':  {"APPENDS", none, other, 0},
	's':  {"SETITEM", none, other, 0},
	'u':  {"SETITEMS", none, other, 0},
	0x90: {"ADDITEMS", none, other, 0},

	'q':  {"BINPUT", fixed1, put, noteMemory},
	'r':  {"LONG_BINPUT", fixed4, put, noteMemory},
	0x94: {"MEMOIZE", none, memoize, noteMemory},
	'h':  {"BINGET", fixed1, get, objectMemory},
	'j':  {"LONG_BINGET", fixed4, get, objectMemory},

	'c':  {"GLOBAL", lines2, global, objectMemory},
	0x93: {"STACK_GLOBAL", none, stackGlobal, objectMemory},
	'R':  {"REDUCE", none, other, containerMemory},
	0x81: {"NEWOBJ", none, other, containerMemory},
	'b':  {"BUILD", none, other, containerMemory},
	'Q':  {"BINPERSID", none, other, objectMemory},
}

// refusedOpcodes has the names of unsupported pickle instructions, for error messages.
var refusedOpcodes = map[byte]string{
	'0': "POP", '1': "POP_MARK", '2': "DUP", 'F': "FLOAT", 'I': "INT", 'L': "LONG", 'P': "PERSID",
	'S': "STRING", 'V': "UNICODE", 'd': "DICT", 'g': "GET", 'i': "INST", 'l': "LIST", 'o': "OBJ",
	'p': "PUT", 0x82: "EXT1", 0x83: "EXT2", 0x84: "EXT4", 0x8b: "LONG4", 0x92: "NEWOBJ_EX",
	0x96: "BYTEARRAY8", 0x97: "NEXT_BUFFER", 0x98: "READONLY_BUFFER",
}
