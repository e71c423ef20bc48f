package app_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/distort-io/distort/modules/api/v1alpha1"
	"github.com/distort-io/distort/modules/manager/internal/apitest"
	"github.com/distort-io/distort/modules/manager/internal/app"
)

const namespace = v1alpha1.DefaultNamespace

// server is the API server of all tests. They run one after the other, each
// with its own distort-manager and an empty inventory.
var server struct {
	// config is that of distort-manager, with its rights and no more.
	config *rest.Config
	// client may do everything.
	client client.Client
}

func TestMain(m *testing.M) { apitest.Main(m, prepare) }

func prepare(env *envtest.Environment, config *rest.Config) (err error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		v1alpha1.AddToScheme, corev1.AddToScheme, coordinationv1.AddToScheme, eventsv1.AddToScheme, rbacv1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return err
		}
	}
	if server.client, err = client.New(config, client.Options{Scheme: scheme}); err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	if err := server.client.Create(context.Background(), ns); err != nil {
		return fmt.Errorf("create namespace: %w", err)
	}
	user, err := env.AddUser(envtest.User{Name: managerUser}, nil)
	if err != nil {
		return fmt.Errorf("make user %s: %w", managerUser, err)
	}
	server.config = user.Config()
	for _, right := range rights() {
		if err := server.client.Create(context.Background(), right); err != nil {
			return fmt.Errorf("grant %s: %w", right.GetName(), err)
		}
	}
	return nil
}

// writes counts the requests of one manager that change something of ours.
type writes struct {
	mu  sync.Mutex
	all []string
}

func (w *writes) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		if changesOurs(request) {
			w.mu.Lock()
			w.all = append(w.all, request.Method+" "+request.URL.Path)
			w.mu.Unlock()
		}
		return next.RoundTrip(request)
	})
}

// changesOurs tells whether a request changes an object of ours.
func changesOurs(request *http.Request) bool {
	return request.Method != http.MethodGet && strings.Contains(request.URL.Path, "/storage.distort.io/")
}

// to lists the writes whose path contains the text.
func (w *writes) to(text string) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(w.all), func(s string) bool { return !strings.Contains(s, text) })
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// manage runs a distort-manager until stop is called or the test ends.
func manage(t *testing.T, change func(*app.Options)) (counted *writes, stop func()) {
	t.Helper()
	counted = &writes{}
	return counted, manageOver(t, counted.wrap, change)
}

// manageOver is manage with a wire between the manager and the API server.
func manageOver(t *testing.T, wire func(http.RoundTripper) http.RoundTripper, change func(*app.Options)) (stop func()) {
	t.Helper()
	options := app.Defaults(func(string) string { return "" })
	options.LeaderElect, options.HealthProbeBindAddress = false, "0"
	change(&options)
	config := rest.CopyConfig(server.config)
	config.Wrap(wire)
	ctx, cancel := context.WithCancel(context.Background())
	mgr, err := app.New(ctx, config, options, time.Now, nil)
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("manager ended with: %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// start runs a distort-manager on an empty inventory.
func start(t *testing.T) *writes {
	t.Helper()
	empty(t)
	counted, _ := manage(t, func(*app.Options) {})
	return counted
}

// empty removes everything that a former test left, once this test ends and
// before it begins.
func empty(t *testing.T) {
	t.Helper()
	sweep := func() {
		ctx := context.Background()
		for _, list := range []client.ObjectList{
			&v1alpha1.NVMeVolumeAttachmentList{}, &v1alpha1.NVMePartitionList{}, &v1alpha1.NVMeDeviceClaimList{}, &v1alpha1.NVMeDeviceList{},
			&v1alpha1.RDMAStorageNodeList{}, &v1alpha1.StorageNodeList{}, &v1alpha1.VolumeList{}, &coordinationv1.LeaseList{},
		} {
			if err := server.client.List(ctx, list); err != nil {
				t.Fatalf("list %T: %v", list, err)
			}
			for _, object := range objectsOf(list) {
				if len(object.GetFinalizers()) > 0 {
					object.SetFinalizers(nil)
					if err := server.client.Update(ctx, object); client.IgnoreNotFound(err) != nil {
						t.Fatalf("remove finalizers of %s: %v", object.GetName(), err)
					}
				}
				if err := server.client.Delete(ctx, object); client.IgnoreNotFound(err) != nil {
					t.Fatalf("remove %s: %v", object.GetName(), err)
				}
			}
		}
	}
	sweep()
	t.Cleanup(sweep)
}

func objectsOf(list client.ObjectList) []client.Object {
	var objects []client.Object
	switch l := list.(type) {
	case *v1alpha1.NVMeVolumeAttachmentList:
		objects = pointers(l.Items)
	case *v1alpha1.NVMePartitionList:
		objects = pointers(l.Items)
	case *v1alpha1.NVMeDeviceClaimList:
		objects = pointers(l.Items)
	case *v1alpha1.NVMeDeviceList:
		objects = pointers(l.Items)
	case *v1alpha1.RDMAStorageNodeList:
		objects = pointers(l.Items)
	case *v1alpha1.StorageNodeList:
		objects = pointers(l.Items)
	case *v1alpha1.VolumeList:
		objects = pointers(l.Items)
	case *coordinationv1.LeaseList:
		for _, object := range pointers(l.Items) {
			if object.GetNamespace() == namespace {
				objects = append(objects, object)
			}
		}
	}
	return objects
}

func pointers[T any, P interface {
	*T
	client.Object
}](items []T) []client.Object {
	var all []client.Object
	for i := range items {
		all = append(all, P(&items[i]))
	}
	return all
}

// eventually waits until check returns nil.
func eventually(t *testing.T, what string, check func(context.Context) error) {
	t.Helper()
	last := fmt.Errorf("never checked")
	err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, 2*time.Minute, true, func(ctx context.Context) (bool, error) {
		err := check(ctx)
		if err == nil || ctx.Err() == nil { // that the time is up says nothing
			last = err
		}
		return err == nil, nil
	})
	if err != nil {
		t.Fatalf("%s: %v", what, last)
	}
}

// settles is eventually for many objects: it looks less often and waits longer.
func settles(t *testing.T, what string, check func(context.Context) error) {
	t.Helper()
	last := fmt.Errorf("never checked")
	err := wait.PollUntilContextTimeout(t.Context(), 250*time.Millisecond, 5*time.Minute, true, func(ctx context.Context) (bool, error) {
		err := check(ctx)
		if err == nil || ctx.Err() == nil { // that the time is up says nothing
			last = err
		}
		return err == nil, nil
	})
	if err != nil {
		t.Fatalf("%s: %v", what, last)
	}
}

// quiet waits long enough for a write that should not come.
func quiet(t *testing.T) {
	t.Helper()
	select {
	case <-time.After(2 * time.Second):
	case <-t.Context().Done():
	}
}

// create makes the objects, those of distort-agent with their status.
func create(t *testing.T, objects ...client.Object) {
	t.Helper()
	for _, object := range objects {
		status := object.DeepCopyObject().(client.Object)
		if err := server.client.Create(t.Context(), object); err != nil {
			t.Fatalf("create %s: %v", object.GetName(), err)
		}
		// The rest has no status, or has it from the manager alone: a second write
		// would get in the manager's way, as no other program's does.
		switch object.(type) {
		case *v1alpha1.NVMeDevice, *v1alpha1.RDMAStorageNode, *v1alpha1.StorageNode:
		default:
			continue
		}
		status.SetResourceVersion("")
		status.SetUID(object.GetUID())
		if err := server.client.Status().Patch(t.Context(), status, client.Merge); err != nil {
			t.Fatalf("write the status of %s: %v", object.GetName(), err)
		}
		get(t, object)
	}
}

func get(t *testing.T, object client.Object) {
	t.Helper()
	if err := server.client.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
		t.Fatalf("get %s: %v", object.GetName(), err)
	}
}

// alter changes the status of an object, whatever it is now.
func alter[T client.Object](t *testing.T, object T, change func(T)) {
	t.Helper()
	eventually(t, "change the status of "+object.GetName(), func(ctx context.Context) error {
		if err := server.client.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		change(object)
		return server.client.Status().Update(ctx, object)
	})
}

func remove(t *testing.T, object client.Object) {
	t.Helper()
	if err := server.client.Delete(t.Context(), object); err != nil {
		t.Fatalf("delete %s: %v", object.GetName(), err)
	}
}

func gone(object client.Object) func(context.Context) error {
	return func(ctx context.Context) error {
		err := server.client.Get(ctx, client.ObjectKeyFromObject(object), object)
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return err
		}
		return fmt.Errorf("%s is still there with finalizers %v", object.GetName(), object.GetFinalizers())
	}
}
