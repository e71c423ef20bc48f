package spdkfake

import (
	"bytes"
	"encoding/json"
	"math"
	"reflect"
	"strings"
)

// decode reads the parameters into a struct as SPDK's decoders do: keys that are
// not known are refused, those without omitempty are required, a number may be
// written as a float if it is none.
func (x *call) decode(into any) bool {
	params := x.params
	if params == nil {
		params = []byte("{}")
	}
	if decodeObject(params, reflect.ValueOf(into).Elem()) {
		return true
	}
	switch {
	case strings.HasPrefix(x.method, "nvmf_"), strings.HasPrefix(x.method, "spdk_"):
		x.refuse(badParams)
	default:
		x.fail(codeInternal, "spdk_json_decode_object failed")
	}
	return false
}

func decodeObject(raw []byte, v reflect.Value) bool {
	var object map[string]json.RawMessage
	if json.Unmarshal(raw, &object) != nil || object == nil {
		return false
	}
	for i := range v.NumField() {
		name, options, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		value, given := object[name]
		delete(object, name)
		if !given && options == "" || given && !decodeValue(value, v.Field(i)) {
			return false
		}
	}
	return len(object) == 0
}

func decodeValue(raw json.RawMessage, v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Pointer:
		p := reflect.New(v.Type().Elem())
		v.Set(p)
		return decodeValue(raw, p.Elem())
	case reflect.Struct:
		return decodeObject(raw, v)
	case reflect.Uint64, reflect.Uint32:
		n, ok := number(raw)
		if !ok || v.Kind() == reflect.Uint32 && n > math.MaxUint32 {
			return false
		}
		v.SetUint(n)
		return true
	default:
		return !bytes.Equal(raw, []byte("null")) && json.Unmarshal(raw, v.Addr().Interface()) == nil
	}
}

func number(raw json.RawMessage) (uint64, bool) {
	var n uint64
	if json.Unmarshal(raw, &n) == nil {
		return n, true
	}
	var f float64
	if json.Unmarshal(raw, &f) != nil || f < 0 || f != math.Trunc(f) || f >= math.MaxUint64 {
		return 0, false
	}
	return uint64(f), true
}

// none refuses any parameters at all.
func (x *call) none() bool {
	if x.params == nil {
		return true
	}
	verb := " requires no parameters"
	if strings.HasPrefix(x.method, "spdk_") || strings.HasPrefix(x.method, "framework_") {
		verb = " method requires no parameters"
	}
	x.fail(codeParams, x.method+verb)
	return false
}
