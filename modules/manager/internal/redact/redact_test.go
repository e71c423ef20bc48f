package redact_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/distort-io/distort/modules/manager/internal/redact"
)

func TestText(t *testing.T) {
	for name, tc := range map[string]struct{ text, want string }{
		"flag":                   {"--password=hunter2 --v=4", "--password=[REDACTED] --v=4"},
		"quoted":                 {`token: "a b\"c" next`, `token: [REDACTED] next`},
		"JSON":                   {`{"apiKey":"x","n":1}`, `{"apiKey":[REDACTED],"n":1}`},
		"JSON in JSON":           {`{"msg":"{\"psk\":\"x\"}"}`, `{"msg":"{\"psk\":[REDACTED]}"}`},
		"quotes in JSON in JSON": {`{"msg":"{\"psk\":\"x\\\"y\",\"n\":1}"}`, `{"msg":"{\"psk\":[REDACTED],\"n\":1}"}`},
		"bearer":                 {"Bearer abcdefgh.ijkl", "Bearer [REDACTED]"},
		"URL":                    {"https://u:p@example.com/x", "https://[REDACTED]@example.com/x"},
		"DH-HMAC-CHAP":           {"connect DHHC-1:01:abc+/=: failed", "connect [REDACTED] failed"},
		"TLS PSK":                {"NVMeTLSkey-1:01:abc=:", "[REDACTED]"},
		"JWT":                    {"x eyJhbGciOiJI.eyJzdWIiOiIx.abc y", "x [REDACTED] y"},
		"key in PEM":             {"a\n-----BEGIN PRIVATE KEY-----\nabc\n-----END PRIVATE KEY-----\nb", "a\n[REDACTED]\nb"},
		"key that is cut":        {"a\n-----BEGIN EC PRIVATE KEY-----\nabc\ndef", "a\n[REDACTED]"},
		"a certificate":          {"-----BEGIN CERTIFICATE-----\nabc", "-----BEGIN CERTIFICATE-----\nabc"},
		"an NQN":                 {"nqn.2026-02.io.distort:volume-vol-1 at tcp://10.0.0.1:4420", "nqn.2026-02.io.distort:volume-vol-1 at tcp://10.0.0.1:4420"},
		"an IPv6 portal":         {"tcp://[fd00::1]:4420", "tcp://[fd00::1]:4420"},
		"talk about secrets":     {"secrets is forbidden", "secrets is forbidden"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := redact.Text(tc.text); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
			if again := redact.Text(redact.Text(tc.text)); strings.Contains(again, "hunter2") {
				t.Errorf("a second pass brings back %q", again)
			}
		})
	}
}

func TestObject(t *testing.T) {
	const in = `{
		"metadata": {"name": "x", "managedFields": [{}], "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "x", "a": "token=1"}},
		"password": "x", "count": 3, "empty-token": "",
		"secretName": "kept", "nodeStageSecretRef": {"name": "kept", "namespace": "kept"},
		"env": [{"name": "DB_PASSWORD", "value": "x"}, {"name": "HOME", "value": "/root"}, {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "kept", "key": "kept"}}}],
		"args": ["--token", "x", "--namespace", "kept", "--secret-name", "kept", "--psk=x"]
	}`
	const want = `{
		"metadata": {"name": "x", "annotations": {"a": "token=[REDACTED]"}},
		"password": "[REDACTED]", "count": 3, "empty-token": "",
		"secretName": "kept", "nodeStageSecretRef": {"name": "kept", "namespace": "kept"},
		"env": [{"name": "DB_PASSWORD", "value": "[REDACTED]"}, {"name": "HOME", "value": "/root"}, {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "kept", "key": "kept"}}}],
		"args": ["--token", "[REDACTED]", "--namespace", "kept", "--secret-name", "kept", "--psk=[REDACTED]"]
	}`
	object, expected := decode(t, in), decode(t, want)
	redact.Object(object)
	if diff := cmp.Diff(expected, object); diff != "" {
		t.Errorf("object differs (-want +got):\n%s", diff)
	}
}

func decode(t *testing.T, text string) map[string]any {
	t.Helper()
	var object map[string]any
	if err := json.Unmarshal([]byte(text), &object); err != nil {
		t.Fatal(err)
	}
	return object
}

// FuzzText looks for a canary in whatever surrounds it.
func FuzzText(f *testing.F) {
	f.Add("", "")
	f.Add(`{"a":"`, `"}`)
	f.Add("x ", "\n")
	f.Fuzz(func(t *testing.T, before, after string) {
		for _, secret := range []string{"DHHC-1:00:Y2FuYXJ5:", "eyJjYW5hcnkx.eyJjYW5hcnky.x"} {
			if got := redact.Text(before + " " + secret + " " + after); strings.Contains(got, secret) {
				t.Errorf("%q is left in %q", secret, got)
			}
		}
	})
}
