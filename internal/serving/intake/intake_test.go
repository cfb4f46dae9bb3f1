package intake

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/snappy"
	"github.com/stretchr/testify/require"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	logs "go.opentelemetry.io/proto/otlp/logs/v1"
	resource "go.opentelemetry.io/proto/otlp/resource/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

func template(t require.TestingT, text string) *Template {
	made, err := ParseTemplate(text)
	require.NoError(t, err)
	return made
}

func texts(b *Batch) map[string]string {
	all := map[string]string{}
	for _, s := range b.Streams {
		all[s.Name] = string(s.Text)
	}
	return all
}

func text(s string) *common.AnyValue {
	return &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: s}}
}

func attr(key string, v *common.AnyValue) *common.KeyValue {
	return &common.KeyValue{Key: key, Value: v}
}

func request() *logs.LogsData {
	list := &common.AnyValue{Value: &common.AnyValue_KvlistValue{KvlistValue: &common.KeyValueList{
		Values: []*common.KeyValue{
			attr("user", text("ann \"x\"")),
			attr("ids",
				&common.AnyValue{Value: &common.AnyValue_ArrayValue{ArrayValue: &common.ArrayValue{
					Values: []*common.AnyValue{
						{Value: &common.AnyValue_IntValue{IntValue: -7}},
						{Value: &common.AnyValue_DoubleValue{DoubleValue: 0.5}},
						{Value: &common.AnyValue_BoolValue{BoolValue: true}},
						{Value: &common.AnyValue_BytesValue{BytesValue: []byte{1, 2}}},
						{},
					},
				}}}),
		},
	}}}
	return &logs.LogsData{ResourceLogs: []*logs.ResourceLogs{
		{
			Resource: &resource.Resource{Attributes: []*common.KeyValue{
				attr("host.name", text("h1")), attr("service.name", text("Checkout")),
			}},
			ScopeLogs: []*logs.ScopeLogs{
				{LogRecords: []*logs.LogRecord{
					{TimeUnixNano: 1, Body: text("started\n"), TraceId: []byte("0123456789abcdef")},
					{TimeUnixNano: 2, Body: list, SeverityText: "INFO", SeverityNumber: 9},
				}},
				{
					Scope: &common.InstrumentationScope{Attributes: []*common.KeyValue{
						attr("service.name", text("of the scope"))}},
					LogRecords: []*logs.LogRecord{{ObservedTimeUnixNano: 3,
						Body: text("Traceback\n  at x\r\n")}},
				},
			},
		},
		{ScopeLogs: []*logs.ScopeLogs{{LogRecords: []*logs.LogRecord{
			{Body: text("nobody's")},
			{TimeUnixNano: 5},
			{TimeUnixNano: 5, Body: text(""),
				Attributes: []*common.KeyValue{attr("app", text("own"))}},
		}}}},
	}}
}

func TestOTLPGivesLinesByService(t *testing.T) {
	binary, err := proto.Marshal(request())
	require.NoError(t, err)
	inJSON, err := protojson.Marshal(request())
	require.NoError(t, err)
	for form, read := range map[string]func() (*Batch, error){
		"protobuf": func() (*Batch, error) { return OTLP(binary, template(t, NameDefault)) },
		"JSON":     func() (*Batch, error) { return OTLPJSON(inJSON, template(t, NameDefault)) },
	} {
		b, err := read()
		require.NoError(t, err, form)
		require.Equal(t, map[string]string{
			"checkout": "started\n" +
				`{"user":"ann \"x\"","ids":[-7,0.5,true,"AQI=",null]}` + "\n",
			Name("of the scope"): `Traceback\n  at x` + "\n",
			"unknown":            "nobody's\n",
			"own":                "\n",
		}, texts(b), form)
		require.Equal(t, 6, b.Records, form)
		require.Equal(t, 1, b.Refused, form)
		require.Equal(t, "record 5: the record has no body", b.Why, form)
		for _, s := range b.Streams {
			require.Equal(t, s.Name == "unknown", s.Key() == "", "only a record without a time "+
				"has no key")
		}
	}
}

// Equal lines with other times, or from another host, get a different key.
func TestKeyIsThatOfTheRecords(t *testing.T) {
	key := func(change func(*logs.LogsData)) string {
		r := request()
		change(r)
		binary, err := proto.Marshal(r)
		require.NoError(t, err)
		b, err := OTLP(binary, template(t, NameDefault))
		require.NoError(t, err)
		return b.Streams[0].Key()
	}
	same := key(func(*logs.LogsData) {})
	require.Len(t, same, 64)
	require.Equal(t, same, key(func(r *logs.LogsData) { r.ResourceLogs = r.ResourceLogs[:1] }))
	require.NotEqual(t, same, key(func(r *logs.LogsData) {
		r.ResourceLogs[0].ScopeLogs[0].LogRecords[0].TimeUnixNano = 9
	}))
	require.NotEqual(t, same, key(func(r *logs.LogsData) {
		r.ResourceLogs[0].ScopeLogs[0].LogRecords[0].ObservedTimeUnixNano = 9
	}))
	require.NotEqual(t, same, key(func(r *logs.LogsData) {
		r.ResourceLogs[0].Resource.Attributes[0] = attr("host.name", text("h2"))
	}))
	keys := map[string]bool{}
	for _, pod := range []string{"a", "b"} {
		b, err := Loki(pushRequest(`{app="web", pod="`+pod+`"}`, "x"), template(t, "{app}"))
		require.NoError(t, err)
		keys[b.Streams[0].Key()] = true
		b, err = LokiJSON([]byte(`{"streams":[{"stream":{"app":"web","pod":"`+pod+
			`"},"values":[["1","x"]]}]}`), template(t, "{app}"))
		require.NoError(t, err)
		keys[b.Streams[0].Key()] = true
	}
	require.Len(t, keys, 4)
}

// Copying a long attribute for each record of a body would need too much memory.
func TestLongAttributesCostLittle(t *testing.T) {
	long := strings.Repeat("x", 900<<10)
	rest := template(t, "{app}")
	jsonBody := func(app string) []byte {
		return []byte(`{"streams":[{"stream":{"app":"` + app + `"},"values":[` +
			strings.Repeat(`["1","x"],`, 20_000) + `["1","x"]]}]}`)
	}
	names := map[string]bool{}
	for _, app := range []string{long, long + "y"} {
		b, err := LokiJSON(jsonBody(app), rest)
		require.NoError(t, err)
		require.Len(t, b.Streams, 1)
		names[b.Streams[0].Name] = true
		b, err = Loki(pushRequest(`{app="`+app+`"}`, make([]string, 20_000)...), rest)
		require.NoError(t, err)
		require.True(t, names[b.Streams[0].Name], "the same in either form")
		raw, err := proto.Marshal(&logs.LogsData{ResourceLogs: []*logs.ResourceLogs{{
			Resource: &resource.Resource{Attributes: []*common.KeyValue{attr("app", text(app))}},
			ScopeLogs: []*logs.ScopeLogs{{LogRecords: slices.Repeat(
				[]*logs.LogRecord{{Body: text("x")}}, 20_000)}},
		}}})
		require.NoError(t, err)
		b, err = OTLP(raw, rest)
		require.NoError(t, err)
		require.True(t, names[b.Streams[0].Name])
	}
	require.Len(t, names, 2)
}

func TestFaultsOfOTLPAreLocated(t *testing.T) {
	binary, err := proto.Marshal(request())
	require.NoError(t, err)
	for cut := 1; cut < len(binary); cut++ {
		_, err := OTLP(binary[:cut], template(t, NameDefault))
		var e *Error
		if err != nil {
			require.ErrorAs(t, err, &e)
			require.LessOrEqual(t, e.Byte, cut)
		}
	}
	deep := []byte{}
	for range DepthMax + 2 {
		deep = protowire.AppendBytes(protowire.AppendTag(nil, 5, protowire.BytesType),
			protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), deep))
	}
	for _, number := range []protowire.Number{5, 2, 2, 1} {
		deep = protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), deep)
	}
	_, err = OTLP(deep, template(t, NameDefault))
	require.ErrorContains(t, err, "too deep")
	for body, want := range map[string]string{
		`{"resourceLogs":[`:      "byte 17",
		`{"resourceLogs":[{}] x`: "byte 22",
		`{"resourceLogs":{}}`:    "resourceLogs, byte 16 of the body: found {}, expected an array",
		`[]`:                     "expected an object",
		`{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"body":{"stringValue":7}}]}]}]}`: "resourceLogs[0].scopeLogs[0].logRecords[0].body.stringValue, byte 70",
		`{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"timeUnixNano":"x"}]}]}]}`:       "nanoseconds",
	} {
		_, err := OTLPJSON([]byte(body), template(t, NameDefault))
		require.ErrorContains(t, err, want, body)
	}
}

// A record that would need much more memory than its text is refused. Other records are accepted.
func TestLargeRecordsAreRefused(t *testing.T) {
	record := func(body string) string { return `{"body":` + body + `},` }
	many := `{"arrayValue":{"values":[` + strings.Repeat("{},", ValuesMax) + `{}]}}`
	long := `{"stringValue":"` + strings.Repeat("x", RecordBytesMax) + `"}`
	b, err := OTLPJSON([]byte(`{"resourceLogs":[{"scopeLogs":[{"logRecords":[`+
		record(many)+record(long)+
		`{"body":{"stringValue":"x"}}]}]}]}`), template(t, NameDefault))
	require.NoError(t, err)
	require.Equal(t, map[string]string{"unknown": "x\n"}, texts(b))
	require.Equal(t, 2, b.Refused)
	require.Contains(t, b.Why, "objects and arrays, expected at most 8192")
}

func TestTemplatesNameStreams(t *testing.T) {
	set := map[string]string{"a": "Web 1", "b": "x.y"}
	for text, want := range map[string]string{
		"{a}": Name("Web 1"), "{b}": "x.y", "{c|b}": "x.y", "{c|none}": "none",
		"logs-{b}":  "logs-x.y",
		"{b}_{c|d}": "x.y_d", "all": "all",
	} {
		require.Equal(t, want, template(t, text).name(set), text)
	}
	for _, bad := range []string{"", "{", "a}", "{a{b}}", "{}", "{a"} {
		_, err := ParseTemplate(bad)
		require.Error(t, err, bad)
	}
}

func TestNamesAreThoseOfSessions(t *testing.T) {
	for text, want := range map[string]string{
		"web": "web", "Checkout": "checkout", "a.b_c-1": "a.b_c-1",
		"import": "import-93ab8f7d", "": "e3b0c442", "ä": "-", "/var/log/x": "",
		"../bin/x": "", "/_x": "", "-.-": "",
		strings.Repeat("x", 70): "",
	} {
		name := Name(text)
		require.Regexp(t, `^[a-z0-9][a-z0-9._-]{0,63}$`, name, text)
		if want != "" && want != "-" && text != "import" {
			require.Equal(t, want, name)
		}
	}
	require.NotEqual(t, "import", Name("import"))
	require.NotEqual(t, Name("web shop"), Name("web-shop"))
}

func pushRequest(labels string, lines ...string) []byte { return pushOf(labels, "p1", lines...) }

// pushOf returns a PushRequest of Loki. The structured metadata of each entry names a pod.
func pushOf(labels, pod string, lines ...string) []byte {
	message := func(number protowire.Number, inner []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), inner)
	}
	stream := message(1, []byte(labels))
	for i, line := range lines {
		time := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType),
			uint64(i+1))
		meta := append(message(1, []byte("pod")), message(2, []byte(pod))...)
		entry := append(message(1, time), append(message(2, []byte(line)), message(3, meta)...)...)
		stream = append(stream, message(2, entry)...)
	}
	return message(1, stream)
}

func TestLokiGivesLinesByLabels(t *testing.T) {
	body := append(pushRequest(`{app="web", env="p\"x"}`, "one", "two"), pushRequest(`{env="q"}`,
		"three")...)
	raw, err := Snappy(snappy.Encode(nil, body), 1<<20)
	require.NoError(t, err)
	b, err := Loki(raw, template(t, "{app|env}"))
	require.NoError(t, err)
	want := map[string]string{"web": "one\ntwo\n", "q": "three\n"}
	require.Equal(t, want, texts(b))
	inJSON, err := LokiJSON([]byte(`{"streams":[
		{"stream":{"app":"web"},"values":[["1000000000","one"],["2000000000","two",{"pod":"p1"}]]},
		{"values":[["1000000000","three"]],"stream":{"env":"q"}}]}`), template(t, "{app|env}"))
	require.NoError(t, err)
	require.Equal(t, want, texts(inJSON))
	require.NotEmpty(t, inJSON.Streams[0].Key())
	again, err := Loki(raw, template(t, "{app|env}"))
	require.NoError(t, err)
	require.Equal(t, b.Streams[0].Key(), again.Streams[0].Key(), "it was sent again")
	b, err = Loki(raw, template(t, "{pod}"))
	require.NoError(t, err)
	require.Equal(t, map[string]string{"p1": "one\ntwo\nthree\n"}, texts(b))
	_, err = Snappy(snappy.Encode(nil, body), len(body)-1)
	require.ErrorContains(t, err, "expected at most")
	_, err = Snappy([]byte("{}"), 1<<20)
	require.ErrorContains(t, err, "Snappy")
	_, err = Loki(pushRequest(`app="web"`, "x"), template(t, "{app}"))
	require.ErrorContains(t, err, "stream 1")
	for _, bad := range []string{`{"streams":[{"values":[["x","y"]]}]}`,
		`{"streams":[{"values":[["1"]]}]}`,
		`{"streams":[{"stream":7}]}`, `{"streams":[{"values":[["1",2]]}]}`} {
		_, err := LokiJSON([]byte(bad), template(t, "{app}"))
		require.Error(t, err, bad)
	}
}

func TestLongMetadataNamesStreamsAlikeInBothForms(t *testing.T) {
	for _, bytes := range []int{1, attributeMax, attributeMax + 1} {
		pod := strings.Repeat("p", bytes)
		b, err := Loki(pushOf(`{app="web"}`, pod, "one"), template(t, "{pod}"))
		require.NoError(t, err)
		inJSON, err := LokiJSON([]byte(`{"streams":[{"stream":{"app":"web"},"values":[`+
			`["1000000000","one",{"pod":"`+pod+`"}]]}]}`), template(t, "{pod}"))
		require.NoError(t, err)
		require.Equal(t, b.Streams[0].Name, inJSON.Streams[0].Name, "%d bytes", bytes)
	}
}

func TestRecordsGiveTheirMessages(t *testing.T) {
	for _, c := range []struct{ body, fields, want string }{
		{`{"message":"one"}` + "\n" + `{"message":"two\nlines","x":1}` + "\n", "", "one\n" +
			`two\nlines` + "\n"},
		{`[{"log":"one\n"},{"msg":"two"}]`, "", "one\ntwo\n"},
		{`{"message":"one"}{"message":"two"}`, "", "one\ntwo\n"},
		{` { "a" : 1 } "text" 7 null`, "", "{\"a\":1}\ntext\n7\nnull\n"},
		{`{"level":"warn","message":"one"}`, "level,message", "warn one\n"},
		{`{"level":3,"k":{"a/b":["x","y"]}}`, "level,/k/a~1b/1", "3 y\n"},
		{`{"level":"warn"}`, "message", `{"level":"warn"}` + "\n"},
		{`{"message":null,"level":"warn"}`, "message,level", "warn\n"},
		{`{"message":{"a": 1}}`, "message", `{"a":1}` + "\n"},
		{`[]`, "", ""},
		{``, "", ""},
	} {
		var f Fields
		if c.fields != "" {
			f = ParseFields(c.fields)
		}
		text, n, err := Records([]byte(c.body), f)
		require.NoError(t, err, c.body)
		require.Equal(t, c.want, string(text), c.body)
		require.Equal(t, strings.Count(c.want, "\n"), n, c.body)
	}
	for body, want := range map[string]string{
		"{\"message\":\"one\"}\n{\"message\":\n": "record 2, line 3, byte",
		"{\"message\":\"one\"}\nx":               "record 2, line 2",
		`[{"a":1},]`:                             "record 1",
	} {
		text, _, err := Records([]byte(body), nil)
		require.ErrorContains(t, err, want, body)
		require.Empty(t, text)
	}
}

func TestMessagePackIsReadAsJSONIs(t *testing.T) {
	map1 := func(value ...byte) []byte {
		return append([]byte{0x81, 0xa3, 'l', 'o', 'g'},
			value...)
	}
	time := append([]byte{0xd7, 0x00}, 1, 2, 3, 4, 5, 6, 7, 8)
	for name, c := range map[string]struct {
		body []byte
		want string
	}{
		"fluent bit": {append(append([]byte{0x92}, time...), map1(0xa2, 'h', 'i')...), "hi\n"},
		"metadata": {append(append([]byte{0x92, 0x92}, append(time, 0x80)...),
			map1(0xa2, 'h', 'i')...),
			"hi\n"},
		"alone":   {map1(0xd9, 2, 'h', 'i'), "hi\n"},
		"numbers": {map1(0x93, 0xff, 0xd1, 0xff, 0x00, 0xcd, 1, 0), `{"log":[-1,-256,256]}` + "\n"},
		"others": {map1(0x95, 0xc0, 0xc3, 0xcb, 0x3f, 0xe0, 0, 0, 0, 0, 0, 0, 0xc4, 1, 7, 0xde, 0,
			1, 1, 2),
			`{"log":[null,true,0.5,"Bw==",{"1":2}]}` + "\n"},
		"two": {append(map1(0xa1, 'a'), map1(0xa1, 'b')...), "a\nb\n"},
		"query": {append([]byte{0x81, 0xa4, 'p', 'a', 't', 'h', 0xa8}, "?a=1&b<2"...),
			`{"path":"?a=1&b<2"}` + "\n"},
	} {
		text, _, err := MessagePack(c.body, nil)
		require.NoError(t, err, name)
		require.Equal(t, c.want, string(text), name)
	}
	deep := append([]byte(strings.Repeat("\x91", DepthMax+2)), 0xc0)
	for name, body := range map[string][]byte{
		"cut": map1(0xa2, 'h'), "length": map1(0xdb, 0xff, 0xff, 0xff, 0xff), "unused": {0xc1},
		"deep": deep,
		"many": {0xdd, 0xff, 0xff, 0xff, 0xff},
	} {
		_, _, err := MessagePack(body, nil)
		var e *Error
		require.ErrorAs(t, err, &e, name)
		require.LessOrEqual(t, e.Byte, len(body), name)
	}
}

// Lines can be longer than their body: a control character takes six bytes in JSON, and a field may
// be named repeatedly. LinesBytesMax limits the lines in any case.
func TestLinesAreBoundedByLimitOfBody(t *testing.T) {
	controls := strings.Repeat("\x01", RecordBytesMax/8)
	record := func(text string) string {
		length := binary.BigEndian.AppendUint32(nil, uint32(len(text)))
		return "\x81\xa1a\xdb" + string(length) + text
	}
	text, _, err := MessagePack([]byte(record(controls)), nil)
	require.NoError(t, err)
	require.Equal(t, `{"a":"`+strings.Repeat(`\u0001`, len(controls))+"\"}\n", string(text))
	twice := strings.Repeat("x", RecordBytesMax*2/3)
	for name, c := range map[string]struct {
		read   func([]byte, Fields) ([]byte, int, error)
		body   string
		fields string
	}{
		"a record": {MessagePack, record(strings.Repeat("\x01", 16*RecordBytesMax)), "a"},
		"list":     {MessagePack, "\xdd\x00\xff\xff\xff" + strings.Repeat("\xff", 1<<24), "a"},
		"lines":    {MessagePack, strings.Repeat(record(controls), 100), "/b"},
		"fields":   {Records, strings.Repeat(`{"a":"`+twice+`"}`, 13), "a,a"},
	} {
		body := []byte(c.body)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, _, err := c.read(body, ParseFields(c.fields))
		runtime.ReadMemStats(&after)
		require.ErrorContains(t, err, "more than", name)
		require.Less(t, int(after.TotalAlloc-before.TotalAlloc), 16*LinesBytesMax, name)
	}
}

func TestLinesOfStreamsAreBounded(t *testing.T) {
	controls := strings.Repeat("\x01", RecordBytesMax/2)
	list := &common.AnyValue{Value: &common.AnyValue_KvlistValue{KvlistValue: &common.KeyValueList{
		Values: []*common.KeyValue{attr("a", text(controls))},
	}}}
	scope := &logs.ScopeLogs{}
	for n := range 8 { // each line has three times the record's bytes
		scope.LogRecords = append(scope.LogRecords, &logs.LogRecord{Body: list})
		data := &logs.LogsData{ResourceLogs: []*logs.ResourceLogs{{
			ScopeLogs: []*logs.ScopeLogs{scope},
		}}}
		body, err := proto.Marshal(data)
		require.NoError(t, err)
		b, err := OTLP(body, template(t, NameDefault))
		if n < 5 {
			require.NoError(t, err)
			require.LessOrEqual(t, b.Bytes(), int64(LinesBytesMax))
			continue
		}
		require.ErrorContains(t, err, "more than 16777216 bytes")
	}
}

func TestBodiesOfShippersAreRead(t *testing.T) {
	read := func(name string) []byte {
		body, err := os.ReadFile("testdata/captured/" + name)
		require.NoError(t, err)
		return body
	}
	b, err := OTLP(read("otelcol.otlp"), template(t, NameDefault))
	require.NoError(t, err)
	require.Equal(t, map[string]string{"shop": "GET /index.html 200\nGET /none 404\n"}, texts(b))
	require.NotEmpty(t, b.Streams[0].Key(), "each record has the time at which it was observed")
	b, err = OTLP(read("otelcol.otlp"), template(t, "{log.file.name}"))
	require.NoError(t, err)
	require.Equal(t, "in.log", b.Streams[0].Name)
	text, _ := Lines(read("syslog-ng.txt"))
	require.Equal(t, "first line a=b\n", string(text))
	for name, want := range map[string]string{
		"fluent-bit.json": "Core: initialization and 32 bit fixes.\nInitial import.\n",
		"rsyslog.json":    "message 1\nmessage 2\nmessage 3\n",
	} {
		require.True(t, IsRecords(read(name)), name)
		text, _, err := Records(read(name), nil)
		require.NoError(t, err, name)
		require.Equal(t, want, string(text), name)
	}
}

func TestLinesEndWithANewline(t *testing.T) {
	for body, want := range map[string]string{"": "", "a": "a\n", "a\nb\n": "a\nb\n",
		"a\n\nb": "a\n\nb\n"} {
		text, n := Lines([]byte(body))
		require.Equal(t, want, string(text))
		require.Equal(t, strings.Count(want, "\n"), n)
	}
}

func TestBodyHasFewStreams(t *testing.T) {
	var body strings.Builder
	for i := range StreamsMax + 1 {
		fmt.Fprintf(&body, `,{"stream":{"app":"a%d"},"values":[["1","x"]]}`, i)
	}
	_, err := LokiJSON([]byte(`{"streams":[`+body.String()[1:]+`]}`), template(t, "{app}"))
	require.ErrorContains(t, err, "more than 1024 streams")
}

func FuzzBodies(f *testing.F) {
	binary, err := proto.Marshal(request())
	require.NoError(f, err)
	inJSON, err := protojson.Marshal(request())
	require.NoError(f, err)
	for _, seed := range [][]byte{
		binary, inJSON, pushRequest(`{app="web"}`, "one", "two"),
		[]byte(`{"streams":[{"stream":{"app":"web"},"values":[["1","one",{"a":"b"}]]}]}`),
		[]byte(`[{"log":"one"}]`), []byte("{\"message\":1}\n\"x\""),
		{0x92, 0xd7, 0, 1, 2, 3, 4, 5, 6, 7, 8, 0x81, 0xa3, 'l', 'o', 'g', 0xa1, 'x'},
	} {
		f.Add(seed)
	}
	for _, name := range captured(f) {
		body, err := os.ReadFile(name)
		require.NoError(f, err)
		f.Add(body)
	}
	names := template(f, NameDefault)
	some := ParseFields("level,/a/0")
	f.Fuzz(func(t *testing.T, body []byte) {
		for form, read := range map[string]func([]byte, *Template) (*Batch, error){
			"otlp": OTLP, "otlp json": OTLPJSON, "loki": Loki, "loki json": LokiJSON,
		} {
			b, err := read(body, names)
			checkFault(t, form, body, err)
			records := 0
			for _, s := range b.Streams {
				require.Regexp(t, `^[a-z0-9][a-z0-9._-]{0,63}$`, s.Name)
				require.Equal(t, s.Records, strings.Count(string(s.Text), "\n"), form)
				records += s.Records
			}
			require.Equal(t, b.Records, records+b.Refused, form)
		}
		for form, read := range map[string]func([]byte, Fields) ([]byte, int, error){
			"records": Records, "msgpack": MessagePack,
		} {
			for _, f := range []Fields{nil, some} {
				text, n, err := read(body, f)
				checkFault(t, form, body, err)
				require.Equal(t, n, strings.Count(string(text), "\n"), form)
			}
		}
		_, _ = Snappy(body, 1<<16)
	})
}

func checkFault(t *testing.T, form string, body []byte, err error) {
	if err == nil {
		return
	}
	var e *Error
	require.ErrorAs(t, err, &e, form)
	require.GreaterOrEqual(t, e.Byte, 0, form)
	require.LessOrEqual(t, e.Byte, len(body)+1, form)
	require.True(t, json.Valid(appendText(nil, e.Error())), form)
}

// captured returns the names of files with requests of real log shippers. testdata/README.md
// describes these files.
func captured(t require.TestingT) []string {
	entries, err := os.ReadDir("testdata/captured")
	require.NoError(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, "testdata/captured/"+e.Name())
	}
	return names
}
