import { toServiceResource, toSliceResource } from '../../lib/kubernetes/resources.ts';
import { kubernetesService } from '../../lib/kube-proxy/kubernetes-service.ts';

/**
 * The apiservers: kube-apiserver keeps them in one slice, of the family that it advertises, and names it as the Service
 * (1.36, pkg/controlplane/reconcilers). A slice that somebody else labels for the Service is not looked at.
 */
export const endpointSlices = toSliceResource(kubernetesService);

/** The Service in the API. */
export const services = toServiceResource(kubernetesService);
