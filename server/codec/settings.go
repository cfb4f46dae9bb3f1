package codec

import (
	"iter"
	"reflect"
	"strings"

	"github.com/lmserve/lmserve/api"
	"github.com/lmserve/lmserve/internal/serving/session"
)

// decodeSettings collects the settings that a request gives, by the names that the contract has for
// them. A field that is a nil pointer or an empty list was left out.
func decodeSettings(given api.SettingsRequest) session.Settings {
	settings := session.Settings{}
	for name, field := range fieldsByName(&given) {
		if field.IsZero() {
			continue
		}
		field = reflect.Indirect(field)
		if field.Kind() == reflect.String { // of a type that the contract names
			field = reflect.ValueOf(field.String())
		}
		settings[name] = field.Interface()
	}
	return settings
}

// EncodeSettings is the settings of a session or of a model, each of which has a value. The list of
// a model without banks is empty, and never null.
func EncodeSettings(inForce session.Settings) api.Settings {
	var settings api.Settings
	for name, field := range fieldsByName(&settings) {
		if value := reflect.ValueOf(inForce[name]); value.IsValid() {
			field.Set(value.Convert(field.Type()))
		}
		if field.Kind() == reflect.Slice && field.IsNil() {
			field.Set(reflect.MakeSlice(field.Type(), 0, 0))
		}
	}
	return settings
}

// fieldsByName gives the fields of the struct that p points to, by their names in JSON.
func fieldsByName(p any) iter.Seq2[string, reflect.Value] {
	object := reflect.ValueOf(p).Elem()
	return func(yield func(string, reflect.Value) bool) {
		for i := range object.NumField() {
			name, _, _ := strings.Cut(object.Type().Field(i).Tag.Get("json"), ",")
			if !yield(name, object.Field(i)) {
				return
			}
		}
	}
}
