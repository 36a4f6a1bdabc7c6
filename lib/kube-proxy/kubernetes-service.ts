import { nftServiceChainName } from './nft-service.ts';
import { serviceChainName } from './service-chain.ts';
import { type ServicePort } from './service-port.ts';

/**
 * The Service that every control plane publishes itself under: its endpoints are the apiservers. What the API's VIP needs
 * to know of a Service is read with this one.
 * Source: pkg/controlplane/controller/kubernetesservice.
 */
export const kubernetesService: ServicePort = {
  namespace: 'default',
  name: 'kubernetes',
  portName: 'https',
  protocol: 'tcp',
  port: 443,
};

/** KUBE-SVC-NPX46M4PTMTKRN6Y: the iptables proxy's chain with its endpoints. */
export const serviceChain = serviceChainName(kubernetesService);

/** `service-2QRHZV4L-default/kubernetes/tcp/https`: the nftables proxy's chain with its endpoints. */
export const nftServiceChain = nftServiceChainName(kubernetesService);
