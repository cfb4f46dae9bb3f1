package codec

import (
	"github.com/lmserve/lmserve/api"
	"github.com/lmserve/lmserve/internal/serving/session"
)

// encodeShadow encodes a shadow session and its comparison with the session that it follows.
// followedWords and shadowWords say whether the two models are models of words.
func encodeShadow(s session.Shadow, followedWords, shadowWords bool) api.Shadow {
	told := api.Shadow{
		ID: s.ID, Offset: s.Offset, BehindBytes: s.Behind, Name: orNil(s.Name),
		Model: orNil(s.Model),
		Error: errorText(s.Err),
	}
	if c := s.Compared; c != nil {
		followed, shadow := Encoder{words: followedWords}, Encoder{words: shadowWords}
		told.Compared = &api.Comparison{
			Offset:             c.Offset,
			Session:            followed.measures(c.Followed),
			Shadow:             shadow.measures(c.Shadow),
			SessionBitsPerByte: bitsPerByte(c.Followed),
			ShadowBitsPerByte:  bitsPerByte(c.Shadow),
		}
		if a, b := told.Compared.SessionBitsPerByte, told.Compared.ShadowBitsPerByte; a != nil &&
			b != nil {
			told.Compared.Difference = new(*b - *a)
		}
	}
	return told
}

// bitsPerByte returns bits per byte without unknown words. This measure allows comparing models of
// bytes with models of words.
func bitsPerByte(t session.Tally) *float64 {
	return per(t.Bits-t.UnknownBits, t.Bytes-t.UnknownBytes)
}
