/** What identifies one port of one Service: kube-proxy's ServicePortName. All names of chains are made of it. */
export interface ServicePortName {
  readonly namespace: string;
  readonly name: string;
  /** Empty for the only port of a Service that does not name it. */
  readonly portName: string;
  readonly protocol: 'tcp' | 'udp' | 'sctp';
}

/** One port of one Service, by which kube-proxy's rules for it are found. */
export interface ServicePort extends ServicePortName {
  /** Its number at the ClusterIP. */
  readonly port: number;
}

/** `default/kubernetes:https`, without the colon when the port has no name: kube-proxy's text for a service port. */
export function formatServicePort({ namespace, name, portName }: ServicePortName): string {
  return `${namespace}/${name}${portName === '' ? '' : `:${portName}`}`;
}
