// Package traces proves that the three programs make one trace of each phase of a
// volume's life, and that distort-manager places what distort-csi promises.
//
// They run as processes of their own (package programs), and export to a real receiver.
// Nothing joins their spans but what the product itself leaves on the objects.
// distort-csi on a node needs a kernel; that its calls link to the provisioning is shown
// in modules/csi/internal/node.
package traces
