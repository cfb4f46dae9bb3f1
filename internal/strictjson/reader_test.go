package strictjson

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

type item struct {
	Name string
	On   bool
	N    string
}

// walk reads {"version":N,"items":[{"name":S,"on":B,"n":N}]}, where N is a number, S a string and B
// a bool. Only "on" and "n" may be missing.
func walk(text string) (items []item, err error) {
	r := NewReader("file", []byte(text))
	err = r.Fields([]string{"version", "items"}, nil, func(name string) error {
		if name == "version" {
			n, err := r.Number("the number 1")
			if err == nil && n != "1" {
				err = r.Misfit("1")
			}
			return err
		}
		return r.Array(3, func(int) error {
			var it item
			err := r.Fields([]string{"name"}, []string{"on", "n"}, func(name string) (err error) {
				switch name {
				case "name":
					it.Name, err = r.String()
				case "on":
					it.On, err = r.Bool()
				case "n":
					it.N, err = r.Number("a number")
				}
				return err
			})
			items = append(items, it)
			return err
		})
	})
	if err == nil {
		err = r.End()
	}
	return items, err
}

func TestReaderWalksPrescribedFormat(t *testing.T) {
	got, err := walk(" {\"version\" : " +
		"1,\n\"items\":[{\"name\":\"a\\u0062\"},{\"n\":1e2,\"on\":true,\"name\":\"\"}]} ")
	require.NoError(t, err)
	require.Equal(t, []item{{Name: "ab"}, {N: "1e2", On: true}}, got)
	got, err = walk(`{"items":[],"version":1}`)
	require.NoError(t, err)
	require.Empty(t, got)
}

func TestReaderNamesPlaceAndFault(t *testing.T) {
	const start = `{"version":1,"items":[{"name":"a"},`
	at := len(start)
	for text, want := range map[string]struct {
		kind        error
		offset      int
		path, found string
		want        string
	}{
		``:                {ErrSyntax, 0, "", "the end of the file", "an object"},
		`[]`:              {ErrValue, 0, "", "an array", "an object"},
		`{"version":2`:    {ErrValue, 11, "version", "2", "1"},
		`{"version":null`: {ErrValue, 11, "version", "null", "the number 1"},
		`{"version":`: {ErrSyntax, 11, "version", "the end of the file",
			"the number 1"},
		`{"version":}`: {ErrSyntax, 11, "version", "'}'",
			"the number 1"},
		`{"version":1`: {ErrSyntax, 12, "version",
			"the end of the file", "',' or '}'"},
		`{"version":1}`: {ErrMissing, 12, "items", `no field "items"`,
			"one"},
		`{"Version":1`: {ErrUnknown, 1, "Version",
			`unknown field "Version"`, `one of ["version" "items"]`},
		`{"version":1,"version":1`: {ErrDuplicate, 13, "version",
			`key "version" again`, "every key once"},
		`{"version":1,"items":{`: {ErrValue, 21, "items", "an object",
			"an array"},
		start + `[`: {ErrValue, at, "items[1]", "an array",
			"an object"},
		start + `]}`: {ErrSyntax, at, "items[0]", "']'", "an object"},
		start + `{}`: {ErrMissing, at + 1, "items[1].name",
			`no field "name"`, "one"},
		start + `{"name":7`: {ErrValue, at + 8, "items[1].name", "7",
			"a string"},
		start + `{"name":"b","on":"yes"`: {ErrValue, at + 17, "items[1].on", `"yes"`,
			"true or false"},
		start + `{"name":"b","n":-}`: {ErrSyntax, at + 17, "items[1].n", "'}'",
			"a number"},
		start + `{"name":"b","näm\ne":1`: {ErrUnknown, at + 12, `items[1]."näm\ne"`,
			`unknown field "näm\ne"`, `one of ["name" "on" "n"]`},
		start + `{"name":"b" "n"`: {ErrSyntax, at + 12, "items[1].name", `'"'`,
			"',' or '}'"},
		start + `{"name":"b"},{"name":"c`: {ErrSyntax, at + 23, "items[2].name",
			"the end of the file", `'"'`},
		start + `{"name":"b"},{"name":"\q`: {ErrSyntax, at + 22, "items[2].name", `"\\q"`,
			"an escape sequence of JSON"},
		start + strings.Repeat(`{"name":"b"},`, 3): {ErrValue, at + 26, "items",
			"more than 3 elements", "no more"},
		`{"version":1,"items":[]} {`:       {ErrSyntax, 25, "", "'{'", "nothing more"},
		"{\"version\":1,\"items\":[]}\xff": {ErrUTF8, 24, "", `byte "\xff"`, "UTF-8"},
	} {
		_, err := walk(text)
		var e *Error
		require.ErrorAs(t, err, &e, text)
		require.Equal(t, Error{want.offset, want.path, want.found, want.want, want.kind, nil}, *e,
			text)
		require.Less(t, len(err.Error()), 300)
	}
}

// FuzzReader checks that Reader and encoding/json read the same values, and that every error of
// Reader has a location.
func FuzzReader(f *testing.F) {
	f.Add([]byte(`{"version":1,"items":[{"name":"a","on":true,"n":1e2},{"name":"\ud83d\ude00"}]}`))
	f.Add([]byte(`{"items":[],"version":1} `))
	f.Add([]byte(`{"items":[{"name":"\ud83d"}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		items, err := walk(string(text))
		if err != nil {
			requireLocated(t, text, err)
			return
		}
		require.NoError(t, Check(text))
		var file struct {
			Items []struct {
				Name string
				On   bool
				N    json.Number
			}
		}
		d := json.NewDecoder(bytes.NewReader(text))
		d.UseNumber()
		require.NoError(t, d.Decode(&file))
		require.Len(t, file.Items, len(items))
		for i, it := range file.Items {
			require.Equal(t, item{it.Name, it.On, it.N.String()}, items[i])
		}
	})
}

func TestReaderDoesNotCopyItsText(t *testing.T) {
	text := []byte(`"` + strings.Repeat("a", 1<<20) + `"`)
	per := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			if Check(text) != nil {
				b.Fatal("not JSON")
			}
		}
	}).AllocedBytesPerOp()
	require.Less(t, per, int64(64<<10))
}
