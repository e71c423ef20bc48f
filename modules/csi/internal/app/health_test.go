package app

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestReadinessNamesWhatIsMissing(t *testing.T) {
	var r readiness
	synced, registered := false, false
	r.requireToServe("caches synced", func() bool { return synced })
	r.require("registered with kubelet", func() bool { return registered })
	for _, step := range []struct {
		change  func()
		serving bool
		code    int
		says    string
	}{
		{func() {}, false, http.StatusServiceUnavailable, "caches synced"},
		{func() { synced = true }, true, http.StatusServiceUnavailable, "registered with kubelet"},
		{func() { registered = true }, true, http.StatusOK, "ok"},
		{func() { registered = false }, true, http.StatusServiceUnavailable, "registered"},
	} {
		step.change()
		w := httptest.NewRecorder()
		r.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/readyz", nil))
		if w.Code != step.code || !strings.Contains(w.Body.String(), step.says) || r.serving() != step.serving {
			t.Errorf("code %d, body %q, serving %t; want %+v", w.Code, w.Body, r.serving(), step)
		}
	}
}
