package kubectl_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	kubescheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/distort-io/distort/modules/api/v1alpha1"
	"github.com/distort-io/distort/modules/manager/internal/apitest"
	"github.com/distort-io/distort/modules/manager/internal/kubectl"
)

// server is the API server of all tests. They share one cluster, each with its
// own namespace of claims.
var server struct {
	// client may do everything; viewer may read everything but Secrets; clerk may
	// read claims, pods and events and nothing else.
	client        client.Client
	viewer, clerk *rest.Config
}

func TestMain(m *testing.M) { apitest.Main(m, prepare) }

func prepare(env *envtest.Environment, config *rest.Config) (err error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{kubescheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return err
		}
	}
	if server.client, err = client.New(config, client.Options{Scheme: scheme}); err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	if server.viewer, err = user(env, "viewer", []rbacv1.PolicyRule{
		{APIGroups: []string{v1alpha1.GroupVersion.Group, "storage.k8s.io", "coordination.k8s.io", "policy"}, Resources: []string{"*"}, Verbs: []string{"get", "list"}},
		{APIGroups: []string{""}, Verbs: []string{"get", "list"}, Resources: []string{
			"persistentvolumeclaims", "persistentvolumes", "pods", "pods/log", "nodes", "events",
		}},
	}); err != nil {
		return err
	}
	if server.clerk, err = user(env, "clerk", []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Verbs: []string{"get", "list"}, Resources: []string{"persistentvolumeclaims", "pods", "events"}},
	}); err != nil {
		return err
	}
	if err := furnish(); err != nil {
		return fmt.Errorf("furnish the cluster: %w", err)
	}
	return nil
}

// user makes a user with these rights in all namespaces.
func user(env *envtest.Environment, name string, rules []rbacv1.PolicyRule) (*rest.Config, error) {
	added, err := env.AddUser(envtest.User{Name: name}, nil)
	if err != nil {
		return nil, fmt.Errorf("make user %s: %w", name, err)
	}
	for _, right := range []client.Object{
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: name}},
		},
	} {
		if err := server.client.Create(context.Background(), right); err != nil {
			return nil, fmt.Errorf("grant rights to %s: %w", name, err)
		}
	}
	return added.Config(), nil
}

// terminal runs the program as a user, through a proxy that notes every request
// and answers for the kubelet, which no test has.
type terminal struct {
	kubeconfig string
	// logs is what every container said.
	logs string

	mu       sync.Mutex
	requests []string
}

func open(t *testing.T, as *rest.Config) *terminal {
	t.Helper()
	transport, err := rest.TransportFor(as)
	if err != nil {
		t.Fatal(err)
	}
	api, _, err := rest.DefaultServerUrlFor(as)
	if err != nil {
		t.Fatal(err)
	}
	term := &terminal{kubeconfig: filepath.Join(t.TempDir(), "kubeconfig")}
	proxy := &httputil.ReverseProxy{Transport: transport, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(api) }}
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		term.mu.Lock()
		term.requests = append(term.requests, r.Method+" "+r.URL.Path)
		term.mu.Unlock()
		if strings.HasSuffix(r.URL.Path, "/log") {
			fmt.Fprint(w, term.logs)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	writeKubeconfig(t, term.kubeconfig, front.URL)
	t.Cleanup(func() { term.checkOnlyReads(t) })
	return term
}

// seen lists the requests until now.
func (term *terminal) seen() []string {
	term.mu.Lock()
	defer term.mu.Unlock()
	return slices.Clone(term.requests)
}

// checkOnlyReads: whatever is asked, nothing is written and no Secret is read.
func (term *terminal) checkOnlyReads(t *testing.T) {
	t.Helper()
	for _, request := range term.seen() {
		if !strings.HasPrefix(request, "GET ") || strings.Contains(request, "/secrets") {
			t.Errorf("the program sent %s", request)
		}
	}
}

func writeKubeconfig(t *testing.T, file, server string) {
	t.Helper()
	content := fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: %q}}]
users: [{name: u, user: {}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
`, server)
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// result is what a command left.
type result struct {
	code        int
	out, errOut string
}

func (term *terminal) run(t *testing.T, args ...string) result {
	t.Helper()
	var out, errOut bytes.Buffer
	code := kubectl.Run(t.Context(), append(args, "--kubeconfig", term.kubeconfig), &out, &errOut)
	return result{code, out.String(), errOut.String()}
}

// ended checks the exit code and that the output says something.
func (r result) ended(t *testing.T, code int, says ...string) {
	t.Helper()
	if r.code != code {
		t.Errorf("exit code %d, want %d", r.code, code)
	}
	for _, text := range says {
		if !strings.Contains(r.out+r.errOut, text) {
			t.Errorf("output does not say %q", text)
		}
	}
	if t.Failed() {
		t.Logf("output:\n%s\nerrors:\n%s", r.out, r.errOut)
	}
}

func (r result) decode(t *testing.T, into any) {
	t.Helper()
	if err := json.NewDecoder(strings.NewReader(r.out)).Decode(into); err != nil {
		t.Fatalf("output is not JSON: %v:\n%s", err, r.out)
	}
}

func namespaceOf(t *testing.T) string {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "demo-"}}
	create(t, ns)
	return ns.Name
}

// create makes objects that go when the test ends.
func create(t *testing.T, objects ...client.Object) {
	t.Helper()
	for _, o := range objects {
		if err := put(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { drop(t, o) })
	}
}

// drop removes an object, whatever holds it: no controller of Kubernetes runs
// that would drop its finalizers.
func drop(t *testing.T, o client.Object) {
	t.Helper()
	ctx, now := context.Background(), int64(0)
	if err := server.client.Delete(ctx, o, &client.DeleteOptions{GracePeriodSeconds: &now}); client.IgnoreNotFound(err) != nil {
		t.Errorf("remove %T %s: %v", o, o.GetName(), err)
	}
	held := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
	if err := server.client.Patch(ctx, o, held); client.IgnoreNotFound(err) != nil {
		t.Errorf("drop the finalizers of %T %s: %v", o, o.GetName(), err)
	}
}

// put makes an object with its status.
func put(ctx context.Context, object client.Object) error {
	status := object.DeepCopyObject().(client.Object)
	if err := server.client.Create(ctx, object); err != nil {
		return fmt.Errorf("create %T %s: %w", object, object.GetName(), err)
	}
	switch object.(type) {
	case *corev1.PersistentVolumeClaim, *corev1.PersistentVolume, *corev1.Pod, *corev1.Node,
		*v1alpha1.NVMeDevice, *v1alpha1.NVMePartition, *v1alpha1.NVMeVolumeAttachment, *v1alpha1.RDMAStorageNode:
	default:
		return nil
	}
	status.SetName(object.GetName())
	status.SetResourceVersion(object.GetResourceVersion())
	status.SetUID(object.GetUID())
	if err := server.client.Status().Update(ctx, status); err != nil {
		return fmt.Errorf("write the status of %T %s: %w", object, object.GetName(), err)
	}
	return server.client.Get(ctx, client.ObjectKeyFromObject(object), object)
}
