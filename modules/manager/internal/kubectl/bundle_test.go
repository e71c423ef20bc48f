package kubectl_test

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/distort-io/distort/modules/manager/internal/bundle"
	"github.com/distort-io/distort/modules/manager/internal/redact"
)

// TestSupportBundleHasNoSecrets puts canaries wherever a secret may be and looks
// for them in everything that is packed.
func TestSupportBundleHasNoSecrets(t *testing.T) {
	ns := namespaceOf(t)
	v := newVolume(t, ns, "data")
	v.claim.Annotations = map[string]string{
		"kubectl.kubernetes.io/last-applied-configuration": `{"note":"` + canary("applied") + `"}`,
		"example.com/auth-token":                           canary("annotation"),
	}
	if err := server.client.Update(t.Context(), v.claim); err != nil {
		t.Fatal(err)
	}
	create(t, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: driverNamespace, Name: "dhchap"}, StringData: map[string]string{"key": canary("secret")},
	})
	warn(t, "Pod", v.pod, "FailedMount", `MountVolume.MountDevice failed for volume "`+v.pv.Name+`" : dhchap-secret: `+canary("event"))
	term := open(t, server.viewer)
	term.logs = `{"msg":"connect","password":"` + canary("json") + `","authorization":"Bearer ` + canary("bearer") + `"}
level=info token=` + canary("logfmt") + ` url=https://user:` + canary("userinfo") + `@example.com
DHHC-1:00:` + strings.ReplaceAll(canary("dhchap"), "-", "") + `==:
-----BEGIN RSA PRIVATE KEY-----
` + canary("pem") + `
-----END RSA PRIVATE KEY-----
all of this is kept
`
	file := filepath.Join(t.TempDir(), "bundle.tar.gz")
	r := term.run(t, "support-bundle", "-f", file)
	r.ended(t, 0, "files packed into "+file)
	files := unpack(t, file)
	for name, content := range files {
		if strings.Contains(content, "canary") {
			t.Errorf("%s has a secret:\n%s", name, content)
		}
	}
	for name, says := range map[string]string{
		"distort-support/objects/nvmepartitions.json":            v.partition.Name,
		"distort-support/objects/persistentvolumeclaims.json":    `"name": "data"`,
		"distort-support/objects/persistentvolumes.json":         redact.Mark,
		"distort-support/objects/pods.json":                      "API_TOKEN",
		"distort-support/objects/events.json":                    "MountVolume.MountDevice failed",
		"distort-support/explain.json":                           `"boundary": "mount"`,
		"distort-support/logs/distort-agent-0/main.log":          "all of this is kept",
		"distort-support/logs/distort-agent-0/main.previous.log": redact.Mark,
		"distort-support/logs/distort-csi-controller-0/main.log": "all of this is kept",
		"distort-support/objects/nvmevolumeattachments.json":     v.attachment.Name,
		"distort-support/objects/volumeattachments.json":         v.pv.Name,
		"distort-support/objects/leases.json":                    "distort-agent-storage-a",
		"distort-support/objects/storageclasses.json":            "distort-tcp",
		"distort-support/objects/rdmastoragenodes.json":          storageNode,
		"distort-support/objects/nvmedevices.json":               serial,
		"distort-support/manifest.json":                          "objects/nvmepartitions.json",
	} {
		if !strings.Contains(files[name], says) {
			t.Errorf("%s does not say %q:\n%s", name, says, files[name])
		}
	}
	for name, content := range files {
		if strings.Contains(name, "secrets") || strings.Contains(content, "managedFields") {
			t.Errorf("%s has what must not be packed", name)
		}
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the archive is %v, %v; only its owner may read it", info.Mode(), err)
	}
	term.run(t, "support-bundle", "-f", file).ended(t, 2, "file exists")
}

func TestSupportBundleSaysWhatIsMissing(t *testing.T) {
	term := open(t, server.clerk)
	file := filepath.Join(t.TempDir(), "bundle.tar.gz")
	term.run(t, "support-bundle", "-f", file).ended(t, 0, "not readable: nvmepartitions", "forbidden")
	var m bundle.Manifest
	if err := json.Unmarshal([]byte(unpack(t, file)["distort-support/manifest.json"]), &m); err != nil {
		t.Fatal(err)
	}
	if len(m.Missing) == 0 || m.Namespace != driverNamespace {
		t.Errorf("manifest %+v", m)
	}
}

func unpack(t *testing.T, file string) map[string]string {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	zip, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for archive := tar.NewReader(zip); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		files[header.Name] = string(content)
	}
}
