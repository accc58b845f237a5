"""An embedded Kubernetes cluster: API server, controllers, kubelets and the playground."""
