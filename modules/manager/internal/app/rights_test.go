package app_test

import (
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// managerUser is who distort-manager is in these tests.
const managerUser = "distort-manager"

// rights are all that distort-manager needs; README.md lists the same.
func rights() []client.Object {
	group := []string{v1alpha1.GroupVersion.Group}
	subjects := []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: managerUser}}
	cluster, local := metav1.ObjectMeta{Name: managerUser}, metav1.ObjectMeta{Namespace: namespace, Name: managerUser}
	return []client.Object{
		&rbacv1.ClusterRole{ObjectMeta: cluster, Rules: []rbacv1.PolicyRule{
			{
				APIGroups: group, Verbs: []string{"get", "list", "watch"},
				Resources: []string{"nvmedevices", "nvmedeviceclaims", "nvmepartitions", "rdmastoragenodes", "snapshots", "storagenodes", "volumes"},
			},
			{APIGroups: group, Verbs: []string{"patch"}, Resources: []string{
				"nvmedeviceclaims", "nvmepartitions", "volumes", "volumes/status", "storagenodes/status",
				"nvmedevices/status", "nvmedeviceclaims/status", "nvmepartitions/status", "rdmastoragenodes/status",
			}},
			{APIGroups: group, Verbs: []string{"delete"}, Resources: []string{"nvmedevices"}},
			{APIGroups: []string{""}, Verbs: []string{"list", "watch"}, Resources: []string{"persistentvolumes"}},
			{APIGroups: []string{"events.k8s.io"}, Verbs: []string{"create", "patch"}, Resources: []string{"events"}},
		}},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: cluster, Subjects: subjects,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: managerUser},
		},
		&rbacv1.Role{ObjectMeta: local, Rules: []rbacv1.PolicyRule{
			{APIGroups: group, Resources: []string{"nvmevolumeattachments"}, Verbs: []string{"list", "watch"}},
			{APIGroups: group, Resources: []string{"nvmevolumeattachments/status"}, Verbs: []string{"patch"}},
			{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"get", "list", "watch", "create"}},
			{
				APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"update", "patch"},
				ResourceNames: []string{"distort-manager"},
			},
		}},
		&rbacv1.RoleBinding{
			ObjectMeta: local, Subjects: subjects,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: managerUser},
		},
	}
}
