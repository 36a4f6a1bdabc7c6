/** How somebody with a certificate is known to an apiserver; files. */
export interface Identity {
  readonly authority: string;
  readonly certificate: string;
  readonly key: string;
}
