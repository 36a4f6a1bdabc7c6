import { nftServiceChainName } from './nft-service.ts';
import { formatServicePort, serviceChainName, type ServicePort } from './service-chain.ts';

/**
 * The Service that every control plane publishes itself under: its endpoints are the apiservers.
 * Source: pkg/controlplane/controller/kubernetesservice.
 */
export const kubernetesService: ServicePort = {
  namespace: 'default',
  name: 'kubernetes',
  portName: 'https',
  protocol: 'tcp',
};

/** The port of its ClusterIP. */
export const servicePort = 443;

/** `default/kubernetes:https`: what kube-proxy's comments call it. */
export const serviceName = formatServicePort(kubernetesService);

/** KUBE-SVC-NPX46M4PTMTKRN6Y: the iptables proxy's chain with its endpoints. */
export const serviceChain = serviceChainName(kubernetesService);

/** `service-2QRHZV4L-default/kubernetes/tcp/https`: the nftables proxy's chain with its endpoints. */
export const nftServiceChain = nftServiceChainName(kubernetesService);
