// Package e2e keeps upstream's end-to-end suite among the requirements of this module.
package e2e

import _ "k8s.io/kubernetes/test/e2e"
