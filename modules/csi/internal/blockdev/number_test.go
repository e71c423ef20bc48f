package blockdev

import "testing"

func TestParseNumber(t *testing.T) {
	if n, err := ParseNumber("259:2"); err != nil || n != (Number{259, 2}) || n.String() != "259:2" {
		t.Errorf("got %v, %v", n, err)
	}
	for _, bad := range []string{"", "259", "259:", ":2", "a:2", "259:-1", "259:2:3", " 259:2"} {
		if n, err := ParseNumber(bad); err == nil {
			t.Errorf("%q accepted as %v", bad, n)
		}
	}
}
