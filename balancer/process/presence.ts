import { type Role } from '../../lib/http/presence.ts';

/** That of `vipnat balancer`: two on one node would repair each other's tables. */
export const balancerRole: Role = {
  title: 'balancer',
  socketName: 'vipnat-balancer',
  code: 'BALANCER_ALREADY_RUNNING',
};
