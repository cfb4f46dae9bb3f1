package codec

import (
	"github.com/lmserve/lmserve/api"
	"github.com/lmserve/lmserve/internal/serving/session"
)

// encodeShadow encodes a shadow and its comparison with its session. The flags say which of the two
// models is a model of words.
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

// bitsPerByte returns a measure by which models of bytes and models of words can be compared. For a
// model of words it leaves out unknown words; a model of bytes has none.
func bitsPerByte(t session.Tally) *float64 {
	return per(t.Bits-t.UnknownBits, t.Bytes-t.UnknownBytes)
}
