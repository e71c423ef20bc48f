package placement

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Message says in one stable line why nothing can hold a volume, as the
// scheduler does for pods: "0/3 drives can hold 64Mi: 2 insufficient space, 1 no
// rdma portal".
func Message(request Request, rejected []Rejection) string {
	counts := map[Reason]int{}
	for _, r := range rejected {
		counts[r.Reason]++
	}
	reasons := make([]Reason, 0, len(counts))
	for reason := range counts {
		reasons = append(reasons, reason)
	}
	slices.SortFunc(reasons, func(a, b Reason) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
	said := make([]string, 0, len(reasons))
	for _, reason := range reasons {
		said = append(said, fmt.Sprintf("%d %s", counts[reason], reason))
	}
	kind := "drive"
	if request.Pool {
		kind = "pool"
	}
	if len(said) == 0 {
		said = append(said, "no "+kind+" is known")
	}
	size := resource.NewQuantity(request.Size, resource.BinarySI)
	return fmt.Sprintf("0/%d %ss can hold %s: %s", len(rejected), kind, size, strings.Join(said, ", "))
}
