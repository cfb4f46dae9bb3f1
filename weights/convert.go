package weights

import (
	"encoding/binary"
	"math"
	"strconv"
)

// F32Tensor makes a tensor of float32 from a copy of the values. It does not check the shape.
// Reading and writing a file check the shapes of all tensors.
func F32Tensor(name string, shape []int, values []float32) Tensor {
	data := make([]byte, 4*len(values))
	for i, v := range values {
		binary.LittleEndian.PutUint32(data[4*i:], math.Float32bits(v))
	}
	return Tensor{Name: name, DType: F32, Shape: shape, Data: data}
}

// F16Tensor makes a tensor of IEEE 754 half precision. It rounds to nearest, ties to even. Values
// of magnitude 65520 and above become infinity.
func F16Tensor(name string, shape []int, values []float32) Tensor {
	return tensor16(name, F16, shape, values, float16Bits)
}

// BF16Tensor makes a tensor of bfloat16. It rounds to nearest, ties to even.
func BF16Tensor(name string, shape []int, values []float32) Tensor {
	return tensor16(name, BF16, shape, values, bfloat16Bits)
}

// FloatTensor makes a tensor of type d, which must be F32, F16 or BF16.
func FloatTensor(name string, d DType, shape []int, values []float32) Tensor {
	switch d {
	case F32:
		return F32Tensor(name, shape, values)
	case F16:
		return F16Tensor(name, shape, values)
	case BF16:
		return BF16Tensor(name, shape, values)
	}
	panic("weights: FloatTensor of " + string(d))
}

func tensor16(name string, d DType, shape []int, values []float32,
	bits func(float32) uint16) Tensor {
	data := make([]byte, 2*len(values))
	for i, v := range values {
		binary.LittleEndian.PutUint16(data[2*i:], bits(v))
	}
	return Tensor{Name: name, DType: d, Shape: shape, Data: data}
}

// Float32s returns the elements of a floating-point tensor in a new slice. Conversion from F32, F16
// and BF16 is exact; F64 is rounded to nearest. Other types give ErrDType.
func (t *Tensor) Float32s() ([]float32, error) {
	if err := t.check(); err != nil {
		return nil, err
	}
	values := make([]float32, t.Elements())
	switch t.DType {
	case F64:
		for i := range values {
			values[i] = float32(math.Float64frombits(binary.LittleEndian.Uint64(t.Data[8*i:])))
		}
	case F32:
		for i := range values {
			values[i] = math.Float32frombits(binary.LittleEndian.Uint32(t.Data[4*i:]))
		}
	case F16:
		for i := range values {
			values[i] = float16Value(binary.LittleEndian.Uint16(t.Data[2*i:]))
		}
	case BF16:
		for i := range values {
			values[i] = bfloat16Value(binary.LittleEndian.Uint16(t.Data[2*i:]))
		}
	default:
		return nil, t.wrongType("F32, F16, BF16 or F64")
	}
	return values, nil
}

// Int32s returns the elements of an integer tensor in a new slice. Floating-point tensors, and I64
// values beyond int32, give ErrDType.
func (t *Tensor) Int32s() ([]int32, error) {
	if err := t.check(); err != nil {
		return nil, err
	}
	values := make([]int32, t.Elements())
	switch t.DType {
	case I64:
		for i := range values {
			v := int64(binary.LittleEndian.Uint64(t.Data[8*i:]))
			if values[i] = int32(v); int64(values[i]) != v {
				return nil, &Error{Where: tensorField(t.Name, "element "+strconv.Itoa(i)),
					Offset: -1,
					Found:  strconv.FormatInt(v, 10), Want: "an int32", Kind: ErrDType}
			}
		}
	case I32:
		for i := range values {
			values[i] = int32(binary.LittleEndian.Uint32(t.Data[4*i:]))
		}
	case U8:
		for i, v := range t.Data {
			values[i] = int32(v)
		}
	default:
		return nil, t.wrongType("I32, I64 or U8")
	}
	return values, nil
}

func (t *Tensor) wrongType(want string) error {
	return &Error{Where: tensorField(t.Name, "dtype"), Offset: -1, Found: string(t.DType),
		Want: want, Kind: ErrDType}
}
