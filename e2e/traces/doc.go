// Package traces proves that the three programs make one trace of each phase of a
// volume's life, and that distort-manager places what distort-csi promises.
//
// They run as processes of their own, as built from their modules, against one
// kube-apiserver and etcd, and export to a real receiver: distort-manager and
// distort-csi (controller) are the products' binaries. distort-agent needs a
// kernel with nvmet and drives, so it is the test binary of its module, which
// runs the product's wiring from options to controllers on a storage node in
// memory (TestHelperAgent there). Nothing joins their spans but what the product
// itself leaves on the objects. distort-csi on a node needs a kernel too; that
// its calls link to the provisioning is shown in modules/csi/internal/node.
package traces
