import { describe } from '@jest/globals';
import { testSevenCases } from './seven-cases.ts';
import { useLab } from './with-lab.ts';

describe('kube-proxy in nftables mode', () => {
  const lab = useLab({ proxyMode: 'nftables' });
  testSevenCases(lab);
});
