package rpc

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestDecode(t *testing.T) {
	for name, tc := range map[string]struct {
		line string
		id   uint64
		says string // of the error, empty if there is none
	}{
		"result":              {`{"jsonrpc":"2.0","id":7,"result":true}`, 7, ""},
		"result is null":      {`{"jsonrpc":"2.0","id":7,"result":null}`, 7, ""},
		"bare string":         {`{"jsonrpc":"2.0","id":7,"result":"Malloc0"}`, 7, ""},
		"error":               {`{"jsonrpc":"2.0","id":7,"error":{"code":-19,"message":"No such device"}}`, 7, ""},
		"unknown member":      {`{"jsonrpc":"2.0","id":7,"result":1,"more":1}`, 7, ""},
		"unreadable request":  {`{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Invalid request"}}`, 0, ""},
		"result without id":   {`{"jsonrpc":"2.0","id":null,"result":1}`, 0, "no id"},
		"other version":       {`{"jsonrpc":"1.0","id":7,"result":1}`, 0, "must be 2.0"},
		"neither":             {`{"jsonrpc":"2.0","id":7}`, 0, "either result or error"},
		"both":                {`{"jsonrpc":"2.0","id":7,"result":1,"error":{"code":1,"message":""}}`, 0, "either result or error"},
		"error without code":  {`{"jsonrpc":"2.0","id":7,"error":{"message":"x"}}`, 0, "code and message"},
		"error without text":  {`{"jsonrpc":"2.0","id":7,"error":{"code":1}}`, 0, "code and message"},
		"id is text":          {`{"jsonrpc":"2.0","id":"7","result":1}`, 0, "never used"},
		"id is zero":          {`{"jsonrpc":"2.0","id":0,"result":1}`, 0, "never used"},
		"id is a fraction":    {`{"jsonrpc":"2.0","id":7.5,"result":1}`, 0, "never used"},
		"no id":               {`{"jsonrpc":"2.0","result":1}`, 0, "never used"},
		"code is text":        {`{"jsonrpc":"2.0","id":7,"error":{"code":"1","message":""}}`, 0, "not a JSON object"},
		"half of one":         {`{"jsonrpc":"2.0","id":7,"res`, 0, "not a JSON object"},
		"two of them":         {`{"jsonrpc":"2.0","id":7,"result":1}{}`, 0, "not a JSON object"},
		"HTTP":                {"HTTP/1.1 200 OK", 0, "not a JSON object"},
		"an array of answers": {`[{"jsonrpc":"2.0","id":7,"result":1}]`, 0, "not a JSON object"},
	} {
		t.Run(name, func(t *testing.T) {
			a, err := decode([]byte(tc.line))
			if tc.says == "" && (err != nil || a.id != tc.id) {
				t.Fatalf("id %d, error %v; want id %d", a.id, err, tc.id)
			}
			if tc.says != "" && (err == nil || !strings.Contains(err.Error(), tc.says)) {
				t.Fatalf("error %v, want %q in it", err, tc.says)
			}
		})
	}
}

func FuzzDecode(f *testing.F) {
	for _, line := range []string{
		`{"jsonrpc":"2.0","id":1,"result":["a",{"b":1.5e3}]}`,
		`{"jsonrpc":"2.0","id":18446744073709551615,"error":{"code":-32602,"message":"Invalid parameters"}}`,
		`{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Invalid request"}}`,
		`{"jsonrpc":"2.0","id":1,"id":2,"result":null,"error":null}`,
		"\xff{}", `{"ID":1}`, "null", "[]", "",
	} {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		a, err := decode(line)
		switch {
		case err != nil:
			return
		case !json.Valid(line):
			t.Error("took what is not JSON")
		case (a.err == nil) == (a.result == nil):
			t.Errorf("neither or both of result and error: %+v", a)
		case a.err == nil && !json.Valid(a.result):
			t.Errorf("result is not JSON: %q", a.result)
		case a.id == 0 && a.err == nil:
			t.Error("a result for nobody")
		case a.err != nil && a.err.Error() == "":
			t.Error("error without a text")
		}
	})
}
