package suggest

// AutoBytes is how much of a text UnitOf looks at: the end.
const AutoBytes = 2048

const (
	autoContext = 5    // bytes by which a place is found where the text went on as it does here
	autoLead    = 0.03 // of the keys that free ends must save beyond words
)

// UnitOf chooses between words and free ends, for a text's next candidates: free ends where they
// would have saved more lately, words else. It replays the end of the text with one candidate, what
// followed when the last five bytes were there before, which needs no network.
func UnitOf(text []byte) Unit {
	text = text[max(0, len(text)-AutoBytes):]
	followed := make([]int, len(text)) // where the same bytes ended before; 0: nowhere
	last := make(map[[autoContext]byte]int, len(text))
	for i := autoContext; i < len(text); i++ {
		context := [autoContext]byte(text[i-autoContext:])
		followed[i], last[context] = last[context], i
	}
	words := keys(text, followed, wordOf)
	free := keys(text, followed, func(run []byte) int { return len(run) })
	if float64(words-free) > autoLead*float64(len(text)) {
		return Free
	}
	return WordPlus
}

// keys is how many keys a text takes, of whose candidates cut says how much is accepted.
func keys(text []byte, followed []int, cut func(right []byte) int) (n int) {
	for i := 0; i < len(text); n++ {
		right := 0
		if from := followed[i]; from > 0 {
			for i+right < len(text) && right < BytesMax && text[from+right] == text[i+right] {
				right++
			}
		}
		i += max(1, cut(text[i:i+right]))
	}
	return n
}

// wordOf is the length of the word at the beginning of a text, with separators before it and the
// one behind it; 0 if the word does not end.
func wordOf(text []byte) int {
	begins := 0
	for begins < len(text) && begins <= int(WordPlus.before()) && separator(text[begins]) {
		begins++
	}
	for end := begins; end < len(text); end++ {
		if separator(text[end]) {
			if end == begins {
				return 0
			}
			return end + 1
		}
	}
	return 0
}
